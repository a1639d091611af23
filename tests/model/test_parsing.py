"""What `parse_event` takes, what it refuses and how it says so."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from eventclient.errors import InvalidEventError
from eventclient.model import parsing as module
from eventclient.model.event_specs import EVENT_SPECS, SERVER_EVENT_TYPES, payload_of
from eventclient.model.events import StepCreated
from eventclient.model.parsing import parse_event
from tests.client.samples import FULL_DATA, LATER, TYPES, event, full_mapping, mapping


@pytest.mark.parametrize("kind", TYPES)
def test_every_field_of_every_type_is_taken(kind: str) -> None:
    parsed = parse_event(full_mapping(kind))
    assert parsed.event_type == kind
    assert parsed.occurred_at == LATER - timedelta(days=1)
    assert parsed.compute_instance_id == "inst_1"
    assert parsed.event_data.model_dump(by_alias=True, exclude_none=True) | _nulls(kind) == FULL_DATA[kind]


def _nulls(kind: str) -> dict[str, Any]:
    # The one null that means something: an attribute is taken away.
    return {"changes": FULL_DATA[kind]["changes"]} if kind == "attr_set" else {}


@pytest.mark.parametrize("kind", TYPES)
def test_the_least_of_every_type_is_taken(kind: str) -> None:
    parsed = event(kind)
    assert parsed.event_type == kind
    assert payload_of(parsed) == b""


@pytest.mark.parametrize("kind", TYPES)
def test_snake_case_names_mean_the_same(kind: str) -> None:
    camel = parse_event(full_mapping(kind))
    assert parse_event(camel.model_dump()) == camel


# -- what is refused --------------------------------------------------------------------------

NAIVE = datetime(2026, 1, 1)


REFUSED: list[tuple[str, object, str]] = [
    ("event", None, "event"),
    ("event", [("eventType", "run_started")], "event"),
    ("no type", {"eventData": {}}, "eventType"),
    ("type null", {"eventType": None}, "eventType"),
    ("type unknown", {"eventType": "step_exploded"}, "eventType"),
    ("type no text", {"eventType": 5}, "eventType"),
    ("type a list", {"eventType": ["step_created"]}, "eventType"),
    ("noop", {"eventType": "noop"}, "eventType"),
    ("hook_conflict", {"eventType": "hook_conflict", "correlationId": "h"}, "eventType"),
    ("no correlation id", mapping("step_created", None), "correlationId"),
    ("correlation id of a run", mapping("run_started") | {"correlationId": "c"}, "correlationId"),
    ("correlation id no text", mapping("step_created") | {"correlationId": 5}, "correlationId"),
    ("unknown member", mapping("run_started") | {"runId": "wrun_1"}, "runId"),
    ("spec version text", mapping("run_started") | {"specVersion": "7"}, "specVersion"),
    ("spec version bool", mapping("run_started") | {"specVersion": True}, "specVersion"),
    ("data no map", mapping("step_created") | {"eventData": 5}, "eventData"),
    ("data missing", {"eventType": "wait_created", "correlationId": "w"}, "eventData"),
    ("field missing", mapping("wait_created") | {"eventData": {}}, "eventData.resumeAt"),
    ("field null", mapping("wait_created", resumeAt=None), "eventData.resumeAt"),
    ("naive time", mapping("run_started") | {"occurredAt": NAIVE}, "occurredAt"),
    ("naive text", mapping("run_started") | {"occurredAt": "2026-01-01T00:00:00"}, "occurredAt"),
    ("no time", mapping("run_started") | {"occurredAt": "soon"}, "occurredAt"),
    ("time a number", mapping("run_started") | {"occurredAt": 1.5}, "occurredAt"),
    ("naive resumeAt", mapping("wait_created", resumeAt=NAIVE), "eventData.resumeAt"),
    ("naive retryAfter", mapping("step_retrying", retryAfter=NAIVE), "eventData.retryAfter"),
    (
        "naive retention",
        mapping("hook_created", tokenRetentionUntil=NAIVE),
        "eventData.tokenRetentionUntil",
    ),
    ("before all time", mapping("wait_created", resumeAt="0001-01-01T00:00:00+01:00"), "eventData.resumeAt"),
    ("after all time", mapping("wait_created", resumeAt="9999-12-31T23:00:00-02:00"), "eventData.resumeAt"),
    ("cancel reason", mapping("run_cancelled", cancelReason="x" * 513), "eventData.cancelReason"),
    ("writer", mapping("attr_set", writer={"type": "nobody"}), "eventData.writer"),
    ("writer's step", mapping("attr_set", writer={"type": "step", "attempt": 1}), "eventData.writer.stepId"),
    ("change", mapping("attr_set", changes=[{"key": "a"}, {"value": "x"}]), "eventData.changes.1.key"),
    ("attempt", mapping("step_started", attempt="1"), "eventData.attempt"),
    ("attempt bool", mapping("step_started", attempt=True), "eventData.attempt"),
    ("flag", mapping("hook_created", isWebhook=1), "eventData.isWebhook"),
    ("context", mapping("run_created", executionContext=5), "eventData.executionContext"),
    ("attribute", mapping("run_created", attributes={"a": 5}), "eventData.attributes.a"),
]


@pytest.mark.parametrize(("given", "field"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_event_is_refused_with_the_field_and_a_reason(given: Any, field: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        parse_event(given)
    assert refused.value.field == field
    assert refused.value.reason
    assert str(refused.value) == f"{field}: {refused.value.reason}"


@pytest.mark.parametrize("kind", sorted(SERVER_EVENT_TYPES))
def test_what_only_a_server_writes_is_no_type_of_a_user(kind: str) -> None:
    assert kind not in EVENT_SPECS
    with pytest.raises(InvalidEventError, match="server alone"):
        parse_event({"eventType": kind})


def test_the_name_of_an_attribute_is_told_as_the_caller_wrote_it() -> None:
    with pytest.raises(InvalidEventError) as refused:
        parse_event(mapping("run_created", attributes={"my_key": 5}))
    assert refused.value.field == "eventData.attributes.my_key"


# -- what is told ------------------------------------------------------------------------------

SECRET = "do-not-show-me"


@pytest.mark.parametrize(
    "given",
    [
        mapping("step_created", stepName={SECRET: SECRET}),
        mapping("step_created", input=SECRET),
        mapping("hook_created", token=[SECRET]),
        mapping("wait_created", resumeAt=SECRET),
        {"eventType": SECRET},
    ],
)
def test_a_refusal_repeats_no_value(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidEventError) as refused:
        parse_event(given)
    assert SECRET not in str(refused.value) + repr(refused.value)


@pytest.fixture
def _forgotten_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_warned", set())


@pytest.mark.usefixtures("_forgotten_warnings")
def test_a_field_the_protocol_does_not_carry_is_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(3):
        parsed = parse_event(mapping("step_created", colour=SECRET))
    assert isinstance(parsed, StepCreated)
    assert parsed == event("step_created")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "eventData.colour" in caplog.text
    assert SECRET not in caplog.text
