"""Entities: strict in what identifies them, lenient in the forms that servers differ in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from eventclient.model.entities import (
    Hook,
    Run,
    Step,
    StoredEvent,
    Wait,
    read_instant,
    read_whole,
)
from eventclient.model.event_specs import EVENT_SPECS

THEN = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
EVENT: dict[str, Any] = {
    "eventType": "step_completed",
    "runId": "r",
    "eventId": "evnt_00000000000000000000000001",
    "createdAt": THEN,
    "correlationId": "s",
    "specVersion": 7,
    "occurredAt": THEN,
    "eventData": {"result": b"devl"},
}
RUN: dict[str, Any] = {
    "runId": "r",
    "status": "completed",
    "deploymentId": "d",
    "workflowName": "w",
    "createdAt": THEN,
    "updatedAt": THEN,
    "completedAt": THEN,
    "attributes": {"a": "b"},
    "output": b"x",
}
STEP: dict[str, Any] = {
    "runId": "r",
    "stepId": "s",
    "stepName": "n",
    "status": "running",
    "attempt": 1,
    "createdAt": THEN,
    "updatedAt": THEN,
    "startedAt": THEN,
}
HOOK: dict[str, Any] = {
    "runId": "r",
    "hookId": "h",
    "token": "do-not-show-me",
    "ownerId": "o",
    "projectId": "p",
    "environment": "e",
    "createdAt": THEN,
}
WAIT: dict[str, Any] = {
    "waitId": "w",
    "runId": "r",
    "status": "waiting",
    "createdAt": THEN,
    "updatedAt": THEN,
    "resumeAt": THEN,
}
AnyEntity = StoredEvent | Run | Step | Hook | Wait
ENTITIES: list[tuple[type[AnyEntity], dict[str, Any]]] = [
    (StoredEvent, EVENT),
    (Run, RUN),
    (Step, STEP),
    (Hook, HOOK),
    (Wait, WAIT),
]
each_entity = pytest.mark.parametrize(
    ("kind", "plain"), ENTITIES, ids=lambda value: getattr(value, "__name__", "")
)


# -- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        THEN,
        THEN.astimezone(timezone(timedelta(hours=9))),
        "2026-03-04T05:06:07.089Z",
        "2026-03-04T06:06:07.089+01:00",
        "2026-03-04T05:06:07.089",
        1772600767089,
        1772600767089.0,
    ],
)
def test_an_instant_is_read_in_every_form(given: object) -> None:
    assert read_instant(given) == THEN


@pytest.mark.parametrize("given", ["soon", True, None, b"x", float("nan"), float("inf"), 1e300, [1]])
def test_what_is_no_instant_comes_back_as_it_is(given: object) -> None:
    assert read_instant(given) is given


@pytest.mark.parametrize(
    ("given", "read"), [(5.0, 5), (-0.0, 0), (5, 5), (5.5, 5.5), ("5", "5"), (None, None)]
)
def test_a_whole_float_is_an_int(given: object, read: object) -> None:
    assert read_whole(given) == read
    assert type(read_whole(given)) is type(read)


@pytest.mark.parametrize("given", [float("inf"), True])
def test_no_other_number_is_touched(given: object) -> None:
    assert read_whole(given) is given


# -- reading -----------------------------------------------------------------------------------


@each_entity
def test_plain_values_are_read(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    read = kind.read(plain)
    assert read.model_dump(by_alias=True, exclude_unset=True) == plain


@each_entity
def test_other_forms_mean_the_same(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    odd = {key: _odd(value) for key, value in plain.items()}
    assert kind.read(odd) == kind.read(plain)


def _odd(value: object) -> object:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    return float(value) if isinstance(value, int) else value


@each_entity
def test_unknown_members_are_ignored(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    assert kind.read(plain | {"futureKey": 1, 5: 6}) == kind.read(plain)


@each_entity
def test_null_is_absent(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    optional: dict[str, Any] = {
        field.alias or "": None for field in kind.model_fields.values() if not field.is_required()
    }
    missing = {key: value for key, value in plain.items() if key not in optional}
    if kind is Run:
        missing |= {"status": "running"}
    assert kind.read(missing | optional) == kind.read(missing)


@each_entity
def test_a_required_member_may_not_be_missing_or_null(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    for field in kind.model_fields.values():
        if field.is_required() and field.alias:
            for without in (
                plain | {field.alias: None},
                {k: v for k, v in plain.items() if k != field.alias},
            ):
                with pytest.raises(ValueError, match=rf"\.{field.alias}: "):
                    kind.read(without)


@each_entity
def test_what_is_no_map_is_refused(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    for value in (None, [plain], "x", 5):
        with pytest.raises(ValueError, match="must be a map"):
            kind.read(value)


@each_entity
def test_an_error_repeats_no_value(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as refused:
        kind.read(plain | {"createdAt": "do-not-show-me"})
    assert "createdAt" in str(refused.value)
    assert "do-not-show-me" not in str(refused.value)


@pytest.mark.parametrize("value", [True, 1.5, "1", float("nan"), float("inf")])
def test_a_count_is_a_whole_number(value: object) -> None:
    with pytest.raises(ValueError, match=r"step\.attempt"):
        Step.read(STEP | {"attempt": value})


@pytest.mark.parametrize(("kind", "plain"), [(Run, RUN), (Step, STEP), (Wait, WAIT)])
def test_an_unknown_status_is_refused(kind: type[AnyEntity], plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="status"):
        kind.read(plain | {"status": "exploded"})


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_run_that_ended_says_when(status: str) -> None:
    without = {key: value for key, value in RUN.items() if key != "completedAt"} | {"status": status}
    with pytest.raises(ValueError, match="completedAt is missing"):
        Run.read(without)


def test_a_ref_in_place_of_a_payload_is_taken() -> None:
    ref = {"_type": "RemoteRef", "_ref": "x"}
    assert Run.read(RUN | {"output": ref}).output == ref
    assert StoredEvent.read(EVENT | {"eventData": {"result": ref}}).payload is None


# -- payloads and secrets ----------------------------------------------------------------------


@pytest.mark.parametrize("event_type", [*EVENT_SPECS, "noop", "hook_conflict", "of_the_future"])
def test_the_payload_is_the_field_the_facts_name(event_type: str) -> None:
    facts = EVENT_SPECS.get(event_type)
    field = facts.payload_field if facts else None
    data = {name: name.encode() for name in ("input", "output", "error", "result", "metadata", "payload")}
    stored = StoredEvent.read(EVENT | {"eventType": event_type, "eventData": data})
    assert stored.payload == (field.encode() if field else None)
    bare = StoredEvent.read({key: value for key, value in EVENT.items() if key != "eventData"})
    assert bare.payload is None


def test_no_payload_and_no_token_is_shown() -> None:
    secret = "do-not-show-me"
    shown = [
        StoredEvent.read(EVENT | {"eventData": {"result": secret.encode(), "token": secret}}),
        Run.read(RUN | {"input": secret, "output": secret, "error": secret, "attributes": {"a": secret}}),
        Step.read(STEP | {"input": secret, "output": secret, "error": secret}),
        Hook.read(HOOK | {"metadata": secret}),
    ]
    assert secret not in "".join(repr(entity) + str(entity) for entity in shown)
