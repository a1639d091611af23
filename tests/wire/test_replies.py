"""What a server answers, in bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.wire.codec import decode, encode_value
from eventclient.wire.frames import decode_frames
from eventclient.wire.replies import (
    LogPart,
    Refused,
    Written,
    encode_end_frame,
    encode_entity,
    encode_error_frame,
    encode_event,
    encode_event_frame,
    encode_event_meta,
    encode_results,
    encode_row_meta,
    encode_written,
    entity_map,
    event_map,
)
from eventclient.wire.rows import NewRow

AT = datetime(2026, 1, 1, 12, 0, 0, 7000, tzinfo=UTC)
EVENT_ID = "evnt_00000000000000000000000001"
IDENTITY = {"eventType": "step_created", "runId": "r", "eventId": EVENT_ID, "createdAt": AT}
EVENT = StoredEvent.read({**IDENTITY, "correlationId": "s", "eventData": {"stepName": "n", "input": b"in"}})
BARE = StoredEvent.read({**IDENTITY, "eventType": "run_started"})
EMPTY = StoredEvent.read({**IDENTITY, "eventType": "run_completed", "eventData": {"output": b"out"}})

RUN = {
    "runId": "r",
    "status": "failed",
    "deploymentId": "d",
    "workflowName": "w",
    "createdAt": AT,
    "updatedAt": AT,
    "attributes": {},
    "input": b"in",
    "error": b"err",
    "completedAt": AT,
}
STEP = {
    "runId": "r",
    "stepId": "s",
    "stepName": "n",
    "status": "completed",
    "attempt": 1,
    "createdAt": AT,
    "updatedAt": AT,
    "input": b"in",
    "output": b"out",
    "error": b"err",
}
HOOK = {
    "runId": "r",
    "hookId": "h",
    "token": "t",
    "ownerId": "o",
    "projectId": "p",
    "environment": "e",
    "createdAt": AT,
    "metadata": b"m",
    "isWebhook": False,
}
def row(event: StoredEvent) -> NewRow:
    return NewRow.of(event, encode_event_meta(event))


WAIT = {"runId": "r", "waitId": "w", "status": "waiting", "createdAt": AT, "updatedAt": AT, "resumeAt": AT}


@pytest.mark.parametrize(
    ("kind", "pairs", "payloads"),
    [
        (Run, RUN, {"input", "error"}),
        (Step, STEP, {"input", "output", "error"}),
        (Hook, HOOK, {"metadata"}),
        (Wait, WAIT, set()),
    ],
)
def test_an_entity_travels_as_it_was_read_and_lazily_without_payloads(
    kind: Any, pairs: dict[str, Any], payloads: set[str]
) -> None:
    entity = kind.read(pairs)
    assert entity_map(entity) == pairs
    assert entity_map(entity, resolve=False) == {
        key: value for key, value in pairs.items() if key not in payloads
    }


def test_an_event_travels_as_it_was_read_and_lazily_without_its_payload() -> None:
    assert event_map(EVENT) == {
        **IDENTITY,
        "correlationId": "s",
        "eventData": {"stepName": "n", "input": b"in"},
    }
    assert event_map(EVENT, resolve=False)["eventData"] == {"stepName": "n"}
    assert event_map(EMPTY, resolve=False)["eventData"] == {}
    assert "eventData" not in event_map(BARE)
    # What only looks like a payload stays.
    conflict = StoredEvent.read({**IDENTITY, "eventType": "hook_conflict", "eventData": {"input": b"x"}})
    assert event_map(conflict, resolve=False)["eventData"] == {"input": b"x"}
    # The event itself is left as it is.
    assert EVENT.payload == b"in"


def test_an_event_frame_carries_the_payload_in_its_body() -> None:
    meta = encode_event_meta(EVENT)
    frames = decode_frames(encode_event_frame(meta, b"in") + encode_event_frame(meta, b"in", resolve=False))
    assert [frame.meta for frame in frames] == [event_map(EVENT, resolve=False)] * 2
    assert [frame.body for frame in frames] == [b"in", b""]


def test_control_frames() -> None:
    stream = b"".join(
        [
            encode_end_frame("eid:x", has_more=True),
            encode_end_frame(None, has_more=False),
            encode_error_frame("payload-missing", "gone"),
            encode_error_frame("other"),
        ]
    )
    assert [(frame.meta, frame.body) for frame in decode_frames(stream)] == [
        ({"_end": 1, "next": "eid:x", "hasMore": True}, b""),
        ({"_end": 1, "hasMore": False}, b""),
        ({"_error": 1, "code": "payload-missing", "message": "gone"}, b""),
        ({"_error": 1, "code": "other"}, b""),
    ]


def test_a_bare_answer_holds_the_event_alone() -> None:
    assert decode(encode_written(Written(row(BARE)), resolve=True)) == {"event": event_map(BARE)}


def test_a_full_answer_holds_everything_under_its_name() -> None:
    written = Written(
        row(EVENT),
        run=Run.read(RUN),
        step=Step.read(STEP),
        hook=Hook.read(HOOK),
        wait=Wait.read(WAIT),
        step_created=True,
        max_events=25000,
        log=LogPart((row(EVENT), row(BARE)), "eid:x", has_more=False),
    )
    expected = {
        "event": event_map(EVENT),
        "run": RUN,
        "step": STEP,
        "hook": HOOK,
        "wait": WAIT,
        "stepCreated": True,
        "maxEvents": 25000,
        "events": [event_map(EVENT), event_map(BARE)],
        "cursor": "eid:x",
        "hasMore": False,
    }
    assert decode(encode_written(written, resolve=True)) == expected
    lazy = decode(encode_written(written, resolve=False))
    assert lazy["event"]["eventData"] == {"stepName": "n"}
    assert "input" not in lazy["step"]
    # The log part feeds a replay.
    assert lazy["events"] == expected["events"]


def test_a_report_has_a_null_cursor() -> None:
    written = Written(row(BARE), log=LogPart((), None, has_more=True))
    value = decode(encode_written(written, resolve=True))
    assert (value["events"], value["cursor"], value["hasMore"]) == ([], None, True)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 300])
def test_a_batch_answer_has_one_result_for_each(count: int) -> None:
    refused = Refused(409, "conflict", "was there before")
    results = [Written(row(EVENT)) if index % 2 else refused for index in range(count)]
    items = decode(encode_results(results, [index % 3 == 0 for index in range(count)]))["results"]
    assert len(items) == count
    for index, item in enumerate(items):
        if index % 2:
            assert item == {"status": 200, "event": event_map(EVENT, resolve=index % 3 == 0)}
        else:
            assert item == {"status": 409, "error": "conflict", "message": "was there before"}


def test_a_batch_answer_needs_a_word_about_payloads_for_each() -> None:
    with pytest.raises(ValueError, match="shorter"):
        encode_results([Written(row(EVENT))], [])


def test_dates_are_floats_under_tag_1() -> None:
    assert b"icreatedAt\xc1\xfb" in encode_event_meta(EVENT)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**53)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["stepName", "input", "other"]), VALUES))
def test_the_straight_way_and_the_general_one_say_the_same(pairs: dict[str, Any]) -> None:
    event = StoredEvent.read({**IDENTITY, "specVersion": 7, "eventData": pairs})
    for resolve in (True, False):
        general = decode(encode_value(event_map(event, resolve=resolve)))
        assert decode(encode_event(event, resolve=resolve)) == general
    run = Run.read({**RUN, "executionContext": pairs, "attributes": {}})
    assert decode(encode_entity(run)) == decode(encode_value(entity_map(run)))


@given(st.dictionaries(st.sampled_from(["stepName", "other"]), VALUES), st.none() | st.text("abc"))
def test_the_meta_of_a_new_row_is_that_of_the_event_it_makes(data: dict[str, Any], name: str | None) -> None:
    parts = {"event_type": "hook_received", "run_id": "r", "spec_version": 7, "created_at": AT}
    more = {"correlation_id": name, "resume_id": name, "event_data": data}
    event = StoredEvent(event_id=EVENT_ID, **parts, **more)  # type: ignore[arg-type]
    assert encode_row_meta(slot=1, **parts, **more) == encode_event_meta(event)  # type: ignore[arg-type]


def test_a_row_gives_its_event_back() -> None:
    for event in (EVENT, BARE, EMPTY):
        assert row(event).event() == event
        assert Written(row(event)).event == event
    with pytest.raises(ValueError, match="no slot"):
        row(StoredEvent.read({**IDENTITY, "eventId": "evnt_x"}))
