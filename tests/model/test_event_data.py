"""The fields of events: forms that are brought to one, and those that are refused or left out."""

from __future__ import annotations

import enum
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from eventclient.errors import InvalidEventError
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import HookCreated, StepCompleted
from eventclient.model.parsing import parse_event
from tests.client.samples import LATER, TYPES, mapping


class Shade(str, enum.Enum):  # noqa: UP042 - its text is not its value, which is the point
    DARK = "dark"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("2026-03-04T05:06:07.089Z", LATER),
        ("2026-03-04T06:06:07.089+01:00", LATER),
        (LATER, LATER),
        (LATER.astimezone(timezone(timedelta(hours=-7))), LATER),
    ],
)
def test_instants_are_kept_in_utc(given: object, taken: datetime) -> None:
    parsed = parse_event(mapping("wait_created", resumeAt=given))
    assert parsed.event_data.model_dump() == {"resume_at": taken}
    assert parsed.event_data.model_dump()["resume_at"].tzinfo is UTC


@pytest.mark.parametrize(
    ("given", "kept"),
    [(3, 3), (3.0, 3), (0, None), (-1, None), (1.5, None), (True, None), ("3", None), (float("inf"), None)],
)
def test_a_telemetry_count_that_is_none_is_left_out(given: object, kept: int | None) -> None:
    parsed = parse_event(mapping("step_completed", stepCount=given, eventCount=given))
    assert isinstance(parsed, StepCompleted)
    assert parsed.event_data.step_count == kept
    assert parsed.event_data.event_count == kept


@pytest.mark.parametrize(("given", "kept"), [(["a"], ["a"]), (("a",), ["a"]), ([1], None), ("a", None)])
def test_optimizations_are_texts_or_left_out(given: object, kept: list[str] | None) -> None:
    parsed = parse_event(mapping("step_completed", optimizations=given))
    assert isinstance(parsed, StepCompleted)
    assert parsed.event_data.optimizations == kept


@pytest.mark.parametrize(
    "given", ["text", bytearray(b"x"), memoryview(b"x"), None, 5, ["x"], uuid.UUID(int=5)]
)
@pytest.mark.parametrize("kind", [kind for kind in TYPES if EVENT_SPECS[kind].payload_field])
def test_a_payload_that_is_not_bytes_is_refused(kind: str, given: object) -> None:
    field = EVENT_SPECS[kind].payload_field
    assert field is not None
    data: dict[str, Any] = {field: given}
    with pytest.raises(InvalidEventError, match=f"must be bytes, not {type(given).__name__}") as refused:
        parse_event(mapping(kind, **data))
    assert refused.value.field == f"eventData.{field}"


def test_a_text_that_is_an_enum_member_means_its_value() -> None:
    parsed = parse_event(mapping("hook_created") | {"eventData": {"token": Shade.DARK}})
    assert isinstance(parsed, HookCreated)
    assert parsed.event_data.token == "dark"
    assert type(parsed.event_data.token) is str
