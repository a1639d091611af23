"""Whose write a 409 met."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.policy.read_back import UNKEPT_PAYLOADS, Finding, Likeness, Sent, find, likeness

AT = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
SENT = Sent("step_created", "step_1", AT, b"ours")


def stored(payload: object = b"ours", **changes: Any) -> StoredEvent:
    told: dict[str, Any] = {
        "event_type": "step_created",
        "run_id": "r",
        "event_id": "evnt_1",
        "created_at": AT,
        "correlation_id": "step_1",
        "event_data": {"stepName": "s"} | ({} if payload is None else {"input": payload}),
    }
    return StoredEvent(**(told | changes))


LATER = AT + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (stored(), Likeness.SAME),
        (stored(event_type="step_started"), Likeness.OTHER),
        (stored(correlation_id="step_2"), Likeness.OTHER),
        (stored(correlation_id=None), Likeness.OTHER),
        (stored(b"theirs"), Likeness.OTHER),
        (stored(b"theirs", created_at=LATER), Likeness.OTHER),
        # A server that keeps occurredAt dates the event by it; createdAt is its own.
        (stored(occurred_at=AT, created_at=LATER), Likeness.SAME),
        (stored(occurred_at=LATER), Likeness.OTHER),
        # Without it createdAt may be the server's clock, or somebody else's instant.
        (stored(created_at=LATER), Likeness.UNTOLD),
        # Below a millisecond nothing is sent.
        (stored(created_at=AT + timedelta(microseconds=400)), Likeness.SAME),
        (stored(created_at=AT - timedelta(microseconds=400)), Likeness.SAME),
        # A payload that is gone can have been ours.
        (stored(None), Likeness.UNTOLD),
        (stored(b""), Likeness.UNTOLD),
        (stored({"_ref": "somewhere"}), Likeness.UNTOLD),
        (stored(None, occurred_at=LATER), Likeness.OTHER),
        (stored(None, created_at=LATER), Likeness.UNTOLD),
        (stored(event_data=None), Likeness.UNTOLD),
    ],
)
def test_the_table_of_likeness(held: StoredEvent, expected: Likeness) -> None:
    assert likeness(SENT, held) is expected


@pytest.mark.parametrize("payload", [None, b""])
def test_an_empty_payload_is_an_absent_one(payload: bytes | None) -> None:
    assert likeness(replace(SENT, payload=b""), stored(payload)) is Likeness.SAME
    assert likeness(replace(SENT, payload=b""), stored(b"theirs")) is Likeness.OTHER


def test_an_event_that_went_out_without_an_instant_is_not_told() -> None:
    assert likeness(replace(SENT, occurred_at=None), stored()) is Likeness.UNTOLD


@pytest.mark.parametrize("kind", sorted(UNKEPT_PAYLOADS))
def test_an_input_that_the_log_does_not_keep_is_not_compared(kind: str) -> None:
    sent = Sent(kind, None, AT, b"input")
    held = stored(event_type=kind, correlation_id=None, event_data=None)
    assert likeness(sent, held) is Likeness.SAME


@pytest.mark.parametrize("kind", sorted(EVENT_SPECS))
def test_every_type_can_be_told(kind: str) -> None:
    field = EVENT_SPECS[kind].payload_field
    data = {field: b"ours"} if field else {}
    resume_id = "res" if kind == "hook_received" else None
    sent = Sent(kind, "c", AT, b"ours" if field else b"", resume_id)
    held = stored(event_type=kind, correlation_id="c", event_data=data, resume_id=resume_id)
    assert likeness(sent, held) is Likeness.SAME


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "name"),
    [
        ("attr_set", None, None, None),
        ("hook_received", None, None, "c"),
        ("hook_received", "res", "other", "c"),
        ("hook_received", "res", None, "c"),
    ],
)
def test_what_may_be_there_twice_and_has_no_name_is_not_told(
    kind: str, ours: str | None, theirs: str | None, name: str | None
) -> None:
    """Two changes of attributes in one call have one instant; so have two deliveries."""
    field = EVENT_SPECS[kind].payload_field
    data = {field: b"ours"} if field else {}
    sent = Sent(kind, name, AT, b"ours" if field else b"", ours)
    held = stored(event_type=kind, correlation_id=name, event_data=data, resume_id=theirs)
    assert likeness(sent, held) is Likeness.UNTOLD


OTHER, UNTOLD, SAME = stored(b"theirs"), stored(created_at=LATER), stored(event_id="evnt_9")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # Nothing in it explains a refusal, so it may lag behind the one that was met.
        ([], Finding(Likeness.UNTOLD)),
        ([stored(correlation_id="step_2")], Finding(Likeness.UNTOLD)),
        ([stored(event_type="step_started")], Finding(Likeness.UNTOLD)),
        ([OTHER], Finding(Likeness.OTHER)),
        ([OTHER, UNTOLD], Finding(Likeness.UNTOLD)),
        ([UNTOLD, OTHER, SAME], Finding(Likeness.SAME, SAME)),
    ],
)
def test_what_a_whole_log_says(log: list[StoredEvent], expected: Finding) -> None:
    assert find(SENT, log) == expected


@pytest.mark.parametrize(
    ("kind", "rival", "expected"),
    [
        ("step_completed", "step_failed", Likeness.OTHER),
        ("step_failed", "step_completed", Likeness.OTHER),
        ("step_completed", "step_started", Likeness.UNTOLD),
        ("step_created", "step_completed", Likeness.UNTOLD),
        ("wait_completed", "wait_created", Likeness.UNTOLD),
        ("run_completed", "run_cancelled", Likeness.OTHER),
        ("run_failed", "run_started", Likeness.UNTOLD),
        ("wait_completed", "run_failed", Likeness.OTHER),
    ],
)
def test_what_explains_a_refusal(kind: str, rival: str, expected: Likeness) -> None:
    name = None if kind.startswith("run_") else "c"
    held = stored(event_type=rival, correlation_id=None if rival.startswith("run_") else "c", event_data={})
    assert find(Sent(kind, name, AT, b"ours"), [held]).likeness is expected
