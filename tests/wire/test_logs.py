"""Framed logs: the same in any pieces, and never taken for whole without their end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.errors import ProtocolError
from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.frames import encode_frame
from eventclient.wire.logs import LogDecoder, LogEnd, decode_event_body, fold_run
from tests.client.answers import end_frame, event_frame, stored_map
from tests.client.samples import LATER, RUN, TYPES, event

EVENTS: list[Event] = [
    event("run_created"),
    event("run_started"),
    event("step_created"),
    event("wait_created"),
]
LOG = b"".join(event_frame(stored_map(each, slot)) for slot, each in enumerate(EVENTS, 1)) + end_frame(
    "eid:4"
)


def read(data: bytes, *cuts: int) -> tuple[list[StoredEvent], LogEnd | None, bool]:
    decoder, events = LogDecoder(), list[StoredEvent]()
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(data)]):
        events += decoder.receive_data(data[start:stop])
    whole = decoder.receive_eof()
    return events, decoder.end, whole


def test_a_whole_log() -> None:
    events, end, whole = read(LOG)
    assert [each.event_type for each in events] == [each.event_type for each in EVENTS]
    assert end == LogEnd("eid:4", has_more=False)
    assert whole


@given(st.lists(st.integers(0, len(LOG))))
def test_any_pieces_give_the_same_log(cuts: list[int]) -> None:
    assert read(LOG, *cuts) == read(LOG)


def test_a_cut_log_is_never_whole() -> None:
    # The end frame counts once the length of its empty body has come.
    for size in range(len(LOG)):
        events, end, whole = read(LOG[:size])
        assert not whole
        assert end is None
        assert events == read(LOG)[0][: len(events)]


def test_bytes_behind_the_end_are_ignored() -> None:
    assert read(LOG + b"garbage", 5, len(LOG), len(LOG) + 2) == read(LOG)
    assert read(LOG + LOG) == read(LOG)


def test_the_body_of_an_end_frame_says_nothing() -> None:
    told = encode_value({"_end": 1, "hasMore": True, "next": "c"})
    for data in (encode_frame(told, b"x"), encode_frame(told, b"xyz")[:-2]):
        assert read(data) == ([], LogEnd("c", has_more=True), True)


@pytest.mark.parametrize(
    "meta", [b"\x01", b"\xff", encode_value({"_end": 1}), encode_value({"_error": 1, "code": "c"})]
)
def test_a_cut_frame_that_is_no_end_ends_nothing(meta: bytes) -> None:
    assert read(encode_frame(meta, b"xyz")[:-2]) == ([], None, False)


@pytest.mark.parametrize("one", [1, 1.0])
@pytest.mark.parametrize(("told", "cursor"), [("c", "c"), ("", None), (None, None)])
def test_forms_of_an_end_frame(one: float, told: str | None, cursor: str | None) -> None:
    meta: dict[str, Any] = {"_end": one, "hasMore": False, "next": told, "futureKey": 1}
    assert read(encode_frame(encode_value(meta), b"")) == ([], LogEnd(cursor, has_more=False), True)


@pytest.mark.parametrize(
    "meta",
    [
        {"_end": 1},
        {"_end": 1, "hasMore": 1},
        {"_end": 1, "hasMore": None},
        {"_end": 1, "hasMore": False, "next": 5},
        {"_end": True, "hasMore": False},
        {"_end": 2, "hasMore": False},
        {"_error": 1},
        {"_error": 1, "code": 5},
        {"_error": True, "code": "c"},
        {"_other": 1},
        {},
        {"eventType": "step_created"},
        stored_map(event("step_created")) | {"createdAt": None},
        stored_map(event("step_created")) | {"eventData": None},
        stored_map(event("step_created")) | {"_end": 0},
    ],
)
def test_a_frame_that_is_neither_event_nor_end(meta: Mapping[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        LogDecoder().receive_data(encode_frame(encode_value(meta), b""))
    assert refused.value.code is None


@pytest.mark.parametrize(("code", "told"), [("payload-missing", "cannot be replayed"), ("other", "other")])
def test_an_error_frame_says_why(code: str, told: str) -> None:
    data = encode_frame(encode_value({"_error": 1, "code": code, "message": "because"}), b"")
    for decode in (LogDecoder().receive_data, decode_event_body):
        with pytest.raises(ProtocolError, match=told) as refused:
            decode(data)
        assert refused.value.code == code
        assert "because" in str(refused.value)


# -- payloads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_the_body_of_a_frame_is_the_payload_of_its_event(kind: str) -> None:
    meta = stored_map(event(kind)) | {"eventData": stored_map(event(kind)).get("eventData", {})}
    data = event_frame(meta, b"devl payload")
    if EVENT_SPECS[kind].payload_field is None:
        with pytest.raises(ProtocolError, match="no payload"):
            LogDecoder().receive_data(data)
    else:
        (stored,) = LogDecoder().receive_data(data)
        assert stored.payload == b"devl payload"
        assert decode_event_body(data) == stored


def test_a_body_needs_event_data_to_stand_in() -> None:
    with pytest.raises(ProtocolError, match="no eventData"):
        LogDecoder().receive_data(event_frame(stored_map(event("step_started")), b"x"))


@pytest.mark.parametrize("kind", ["noop", "of_the_future", 5])
def test_types_of_the_future_are_read_unless_they_carry_a_body(kind: Any) -> None:
    meta = stored_map(event("run_started")) | {"eventType": kind}
    with pytest.raises(ProtocolError):
        LogDecoder().receive_data(event_frame(meta, b"x"))
    if isinstance(kind, str):
        (stored,) = LogDecoder().receive_data(event_frame(meta))
        assert stored.event_type == kind


# -- one event ---------------------------------------------------------------------------------


def test_one_event_is_one_whole_frame() -> None:
    data = event_frame(stored_map(event("step_created")), b"in")
    assert decode_event_body(data).payload == b"in"
    assert decode_event_body(data + b"garbage").payload == b"in"
    for size in range(len(data)):
        with pytest.raises(ProtocolError, match="cut off"):
            decode_event_body(data[:size])


@pytest.mark.parametrize("data", [end_frame("c"), encode_frame(b"\x01", b""), encode_frame(b"\xa0", b"")])
def test_a_frame_that_is_no_event(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_event_body(data)


# -- the run of a log --------------------------------------------------------------------------


def stored(kind: str, slot: int, **data: Any) -> StoredEvent:
    return StoredEvent.read(stored_map(event(kind, **data), slot))


CREATED = StoredEvent.read(
    stored_map(event("run_created", attributes={"a": "1", "b": "2"}, executionContext={"x": 1}))
)
STARTED = stored("run_started", 2)


def changes(slot: int, **told: str | None) -> StoredEvent:
    return stored("attr_set", slot, changes=[{"key": key, "value": value} for key, value in told.items()])


def test_a_run_is_folded_out_of_its_log() -> None:
    run = fold_run([CREATED, STARTED, changes(3, a=None, c="3"), changes(4, c="4")])
    assert (run.run_id, run.status, run.started_at) == (RUN, "running", LATER)
    assert (run.deployment_id, run.workflow_name) == ("dpl_1", "w")
    assert run.attributes == {"b": "2", "c": "4"}
    assert run.execution_context == {"x": 1}


@pytest.mark.parametrize("events", [[], [CREATED], [STARTED]])
def test_a_log_without_its_beginning_describes_no_run(events: list[StoredEvent]) -> None:
    with pytest.raises(MalformedError, match="lacks its"):
        fold_run(events)


@pytest.mark.parametrize("odd", [{"value": "x"}, {"key": 5}, "text", {"key": "a", "value": 5}])
def test_odd_changes_are_malformed(odd: object) -> None:
    told = stored_map(event("attr_set"), 3)
    told["eventData"] = told["eventData"] | {"changes": [odd]}
    with pytest.raises(MalformedError):
        fold_run([CREATED, STARTED, StoredEvent.read(told)])
