"""Answers to batches: what proves a write is strict, what comes beside it is lenient."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.entities import Step, StoredEvent, Wait
from eventclient.model.results import Result
from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.responses import decode_batch
from tests.client.answers import batch_answer, item_map, stored_map, success_map
from tests.client.samples import LATER, OTHER_RUN, RUN, event, pair

EVENTS = [*pair(), event("wait_created", "w"), event("step_completed", "other"), event("run_completed")]


def entities(result: Result) -> tuple[object, ...]:
    """All a result holds, built: building must not fail."""
    return (
        result.stored,
        result.run,
        result.step,
        result.hook,
        result.wait,
        result.step_created,
        result.max_events,
        result.log,
    )


# -- batches -----------------------------------------------------------------------------------


def test_one_result_per_event_in_order() -> None:
    results = decode_batch(batch_answer(EVENTS, [200, 409, 200, 404, 500]), RUN, EVENTS)
    assert [result.status for result in results] == [200, 409, 200, 404, 500]
    assert [result.code for result in results] == [None, "conflict", None, "code-404", "code-500"]
    assert [result.message for result in results] == [None, "told so", None, "told so", "told so"]
    stored = results[0].stored
    assert stored == StoredEvent.read(stored_map(EVENTS[0], 1))
    assert results[0].step == Step.read(success_map(EVENTS[0])["step"])
    assert results[2].wait == Wait.read(success_map(EVENTS[2])["wait"])
    assert entities(results[1]) == (None, None, None, None, None, False, None, None)


def test_a_cut_answer_proves_nothing() -> None:
    data = batch_answer(EVENTS)
    for size in range(len(data)):
        with pytest.raises(MalformedError):
            decode_batch(data[:size], RUN, EVENTS)


def items(**changes: Any) -> list[Any]:
    """Results for `EVENTS`, the first of them changed."""
    told = [item_map(each, slot=slot) for slot, each in enumerate(EVENTS, 1)]
    return [told[0] | changes, *told[1:]]


def without(key: str) -> list[Any]:
    told = items()
    del told[0][key]
    return told


STORED = stored_map(EVENTS[0])
MALFORMED: dict[str, object] = {
    "nothing": b"",
    "json": json.dumps({"results": []}).encode(),
    "html": b"<title>Login</title>",
    "a tail": batch_answer(EVENTS) + b"\x00",
    "null": None,
    "a list": items(),
    "no results": {},
    "results null": {"results": None},
    "results a map": {"results": {"0": items()[0]}},
    "results text": {"results": "ok"},
    "one short": {"results": items()[:-1]},
    "one long": {"results": [*items(), items()[0]]},
    "swapped": {"results": [*reversed(items())]},
    "item null": {"results": [None, *items()[1:]]},
    "item a list": {"results": [[], *items()[1:]]},
    "no status": {"results": without("status")},
    "no event": {"results": without("event")},
    **{
        f"status {status!r}": {"results": items(status=status)}
        for status in ("200", True, None, 200.5, 201, 0)
    },
    "failure without words": {"results": items(status=409)},
    "failure without message": {"results": items(status=409, error="conflict")},
    "failure without code": {"results": items(status=409, message="m")},
    "failure of no text": {"results": items(status=409, error=5, message="m")},
    "event null": {"results": items(event=None)},
    "event a list": {"results": items(event=[])},
    "wrong type": {"results": items(event=STORED | {"eventType": "step_completed"})},
    "hook_conflict": {"results": items(event=STORED | {"eventType": "hook_conflict"})},
    "foreign run": {"results": items(event=STORED | {"runId": OTHER_RUN})},
    "foreign step": {"results": items(event=STORED | {"correlationId": "step_other"})},
    "no correlation id": {"results": items(event=STORED | {"correlationId": None})},
    "no id": {"results": items(event=STORED | {"eventId": None})},
    "no time": {"results": items(event=STORED | {"createdAt": None})},
    "time a word": {"results": items(event=STORED | {"createdAt": "soon"})},
    "no data": {"results": items(event=STORED | {"eventData": None})},
    "data without its field": {"results": items(event=STORED | {"eventData": {}})},
    "field null": {"results": items(event=STORED | {"eventData": {"stepName": None}})},
    "step of no use": {"results": items(step={"stepId": "s"})},
    "step of odd status": {"results": items(step=success_map(EVENTS[0])["step"] | {"status": "odd"})},
}


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_anything_else_is_malformed(answer: object) -> None:
    data = answer if isinstance(answer, bytes) else encode_value(answer)
    with pytest.raises(MalformedError):
        decode_batch(data, RUN, EVENTS)


def test_the_place_of_a_malformed_result_is_told() -> None:
    told = items()
    told[2] = None
    with pytest.raises(MalformedError, match="result 2"):
        decode_batch(encode_value({"results": told}), RUN, EVENTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"futureKey": {"a": 1}},
        {"status": 200.0},
        {"error": "conflict", "message": "m"},
        {"warning": "slow"},
        {"hook": None, "run": None, "wait": None},
        {"event": STORED | {"futureKey": 1}},
        {"event": STORED | {"createdAt": "2026-03-04T05:06:07.089Z"}},
        {"event": STORED | {"createdAt": 1772600767089.0}},
        {"event": STORED | {"specVersion": 7.0}},
        {"event": STORED | {"occurredAt": None}},
        {"step": success_map(EVENTS[0])["step"] | {"attempt": 1.0, "completedAt": None}},
    ],
)
def test_what_comes_beside_does_not_matter(changes: dict[str, Any]) -> None:
    answer = encode_value({"results": items(**changes), "futureKey": 1})
    (result, *_) = decode_batch(answer, RUN, EVENTS)
    assert entities(result) == entities(decode_batch(batch_answer(EVENTS), RUN, EVENTS)[0])


@pytest.mark.parametrize("step", [None, {}, {"startedAt": None}])
def test_a_start_in_a_batch_says_when(step: dict[str, Any] | None) -> None:
    told = items()
    told[1]["step"] = step if step is None else told[1]["step"] | step
    if step == {}:
        del told[1]["step"]["startedAt"]
    with pytest.raises(MalformedError, match="result 1"):
        decode_batch(encode_value({"results": told}), RUN, EVENTS)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.just("soon"),
    st.binary(max_size=3),
    st.dictionaries(st.sampled_from(["stepName", "a"]), st.none() | st.just("s"), max_size=2),
    st.lists(st.integers(-5, 5), max_size=2),
    st.just(LATER),
)
PLACES = [(part, key) for part in ("event", "step") for key in success_map(EVENTS[0])[part]]


@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_the_quick_way_and_the_close_look_agree(changes: list[tuple[tuple[str, str], object]]) -> None:
    item = item_map(EVENTS[0])
    for (part, key), value in changes:
        item[part][key] = value
    quick = _told(item)
    # A null entity says nothing, and keeps the result off the quick way.
    assert quick == _told(item | {"wait": None})


def _told(item: dict[str, Any]) -> object:
    try:
        (result,) = decode_batch(encode_value({"results": [item]}), RUN, EVENTS[:1])
    except MalformedError as error:
        return str(error)
    return entities(result)
