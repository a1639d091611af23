"""Answers to single posts, the events in them, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.responses import (
    REQUIRED_DATA,
    check_stored,
    decode_refusal,
    decode_single,
)
from tests.client.answers import single_answer, stored_map, success_map
from tests.client.samples import RUN, TYPES, event, steps


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_answered(kind: str) -> None:
    result = decode_single(single_answer(event(kind)), RUN, event(kind))
    assert result.status == 200
    assert result.stored is not None
    assert result.stored.event_type == kind
    told = success_map(event(kind))
    for name, model in (("run", Run), ("step", Step), ("wait", Wait), ("hook", Hook)):
        assert getattr(result, name) == (model.read(told[name]) if name in told else None)


@pytest.mark.parametrize("kind", TYPES)
def test_no_cut_answer_proves_a_single_write(kind: str) -> None:
    data = single_answer(event(kind))
    for size in range(len(data)):
        with pytest.raises(MalformedError):
            decode_single(data[:size], RUN, event(kind))


@pytest.mark.parametrize(
    ("kind", "changes", "missing"),
    [
        ("step_started", {"step": None}, "step is missing"),
        (
            "step_started",
            {"step": success_map(event("step_started"))["step"] | {"startedAt": None}},
            "startedAt",
        ),
        ("run_created", {"run": None}, "run is missing"),
        ("run_started", {"run": None}, "run is missing"),
        ("run_started", {"run": success_map(event("run_started"))["run"] | {"startedAt": None}}, "startedAt"),
        ("step_created", {"event": None}, "must be a map"),
        ("step_created", {"stepCreated": 5}, "stepCreated"),
        ("step_created", {"maxEvents": 0}, "maxEvents"),
        ("step_created", {"maxEvents": 1.5}, "maxEvents"),
        ("step_created", {"maxEvents": True}, "maxEvents"),
        ("step_created", {"maxEvents": "9"}, "maxEvents"),
        ("step_created", {"events": []}, "come together"),
        ("step_created", {"events": {}, "cursor": None, "hasMore": False}, "come together"),
        ("step_created", {"events": None, "cursor": None, "hasMore": False}, "come together"),
        ("step_created", {"events": [], "cursor": 5, "hasMore": False}, "cursor"),
        ("step_created", {"events": [{}], "cursor": None, "hasMore": False}, "event"),
        ("hook_created", {"hook": {}}, "hook"),
    ],
)
def test_what_must_come_with_a_single_answer(kind: str, changes: dict[str, Any], missing: str) -> None:
    with pytest.raises(MalformedError, match=missing):
        decode_single(encode_value(success_map(event(kind)) | changes), RUN, event(kind))


@pytest.mark.parametrize("answer", [b"", b"\xf6", b"\x80", b"{}", b"\x01"])
def test_a_single_answer_is_a_map(answer: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_single(answer, RUN, event("step_created"))


def test_a_held_token_answers_with_a_conflict() -> None:
    hook = event("hook_created")
    told = success_map(hook)
    told["event"] = told["event"] | {"eventType": "hook_conflict", "eventData": {"token": "tok"}}
    result = decode_single(encode_value(told), RUN, hook)
    assert result.stored is not None
    assert result.stored.event_type == "hook_conflict"


def test_what_a_single_answer_may_bring() -> None:
    start = event("step_started", stepName="s", input=b"x")
    told = success_map(start) | {
        "stepCreated": True,
        "maxEvents": 25000.0,
        "events": [stored_map(each, slot) for slot, each in enumerate(steps(2), 1)],
        "cursor": "eid:2",
        "hasMore": True,
    }
    result = decode_single(encode_value(told), RUN, start)
    assert (result.step_created, result.max_events) == (True, 25000)
    assert result.log is not None
    assert [each.event_id[-1] for each in result.log.events] == ["1", "2"]
    assert (result.log.cursor, result.log.has_more) == ("eid:2", True)


# -- stored events -----------------------------------------------------------------------------


def test_required_fields_are_of_known_types() -> None:
    assert set(REQUIRED_DATA) <= {*EVENT_SPECS, "hook_conflict"}


@pytest.mark.parametrize("kind", TYPES)
def test_a_stored_event_without_its_fields_says_nothing(kind: str) -> None:
    whole = stored_map(event(kind))
    check_stored(StoredEvent.read(whole))
    bare = StoredEvent.read(whole | {"eventData": None})
    if EVENT_SPECS[kind].data_required:
        with pytest.raises(ValueError, match="eventData is missing"):
            check_stored(bare)
    else:
        assert check_stored(bare) is bare
    for field in REQUIRED_DATA.get(kind, ()):
        with pytest.raises(ValueError, match=field):
            check_stored(StoredEvent.read(whole | {"eventData": whole["eventData"] | {field: None}}))


# -- refusals ----------------------------------------------------------------------------------

BODY = {"message": "told so", "code": "some-code"}


@pytest.mark.parametrize("label", ["application/json", "application/cbor", "text/html", ""])
@pytest.mark.parametrize("body", [json.dumps(BODY).encode(), encode_value(BODY)])
def test_a_refusal_is_read_however_it_is_labelled(label: str, body: bytes) -> None:
    refusal = decode_refusal(label, body)
    assert (refusal.message, refusal.code, refusal.log) == ("told so", "some-code", None)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'"text"', b"{", b"\xff", b"[" * 100_000, b"5", b"\x05"]
)
@pytest.mark.parametrize("label", ["application/json", "application/cbor"])
def test_what_is_no_map_is_not_repeated(label: str, body: bytes) -> None:
    refusal = decode_refusal(label, body)
    assert (refusal.message, refusal.code) == (None, None)


@given(st.binary(), st.text())
def test_reading_a_refusal_never_raises(body: bytes, label: str) -> None:
    decode_refusal(label, body)


def test_members_of_the_wrong_type_are_left_out_and_long_messages_cut() -> None:
    assert decode_refusal("", encode_value({"message": 5, "code": ["x"]})).message is None
    assert len(decode_refusal("", json.dumps({"message": "x" * 9999}).encode()).message or "") == 500


def delta(*changed: Event, **changes: Any) -> dict[str, Any]:
    return BODY | {"events": [stored_map(each) | changes for each in changed], "cursor": "eid:1"}


def test_a_412_may_bring_the_missing_part_of_the_log() -> None:
    refusal = decode_refusal("application/cbor", encode_value(delta(event("step_created"))))
    assert refusal.log is not None
    assert [each.event_type for each in refusal.log.events] == ["step_created"]
    assert (refusal.log.cursor, refusal.log.has_more) == ("eid:1", False)


@pytest.mark.parametrize(
    "body",
    [
        delta(event("step_created"), eventId=None),
        delta(event("step_created"), eventData=None),
        delta(event("step_created"), eventData={"stepName": "s", "input": {"0": 1}}),
        BODY | {"events": {}},
    ],
)
def test_a_part_with_anything_wrong_is_none(body: dict[str, Any]) -> None:
    assert decode_refusal("application/cbor", encode_value(body)).log is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"code": "c", "error_type": "t"}, "c"),
        ({"error_type": "t"}, "t"),
        ({"code": None, "error_type": "t"}, "t"),
        ({"code": "", "error_type": "t"}, "t"),
        ({"code": 5, "error_type": "t"}, "t"),
        ({"error": "e"}, None),
        ({"code": "", "error_type": ["t"]}, None),
    ],
)
def test_the_code_of_a_refusal_or_else_its_error_type(body: dict[str, object], code: str | None) -> None:
    assert decode_refusal("application/json", json.dumps(body).encode()).code == code
    assert decode_refusal("application/cbor", encode_value(body)).code == code
