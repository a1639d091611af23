"""How the events of a call are cut into requests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventclient.batching.chunks import BatchLimits, Chunk, entity_key, plan_chunks
from eventclient.errors import ConfigurationError, InvalidEventError
from eventclient.model.event_specs import is_batchable, is_pair
from eventclient.model.events import Event
from tests.client.samples import TYPES, event, pair, steps

KEYS = ("a", "b", "c", "d")
LAZY = [event("step_started", key, stepName="s", input=b"x") for key in KEYS]
EVENTS = st.sampled_from([*(event(kind, key) for kind in TYPES for key in KEYS), *LAZY])
# Creates and starts of few steps, so that pairs come about often.
PAIRING = st.sampled_from([event(kind, key) for kind in ("step_created", "step_started") for key in KEYS])
SEQUENCES = st.lists(EVENTS | PAIRING, max_size=14)
LIMITS = st.builds(BatchLimits, max_events=st.integers(1, 6), max_bytes=st.integers(20, 60))


def sized(events: Sequence[Event], draw: st.DataObject) -> list[int]:
    return draw.draw(st.lists(st.integers(1, 10), min_size=len(events), max_size=len(events)))


def may_be_one_request(events: Sequence[Event], sizes: Sequence[int], limits: BatchLimits) -> bool:
    """Whether the rules let these events share a request: said anew, apart from the planner."""
    if len(events) == 1:
        return True
    if len(events) > limits.max_events or sum(sizes) > limits.max_bytes:
        return False
    if not all(is_batchable(each) for each in events):
        return False
    keys = [entity_key(each) for each in events]
    return all(
        keys.count(key) == 1 or (keys.count(key) == 2 and is_pair(*_at(events, keys, key))) for key in keys
    )


def _at(events: Sequence[Event], keys: Sequence[object], key: object) -> tuple[Event, Event]:
    first = keys.index(key)
    return events[first], events[min(first + 1, len(events) - 1)]


def fewest(events: Sequence[Event], sizes: Sequence[int], limits: BatchLimits) -> int:
    """The least number of requests, found by trying every cut that splits no pair."""
    best = [0] + [len(events) + 1] * len(events)
    for stop in range(1, len(events) + 1):
        if stop < len(events) and limits.max_events > 1 and is_pair(events[stop - 1], events[stop]):
            continue
        for start in range(stop):
            if may_be_one_request(events[start:stop], sizes[start:stop], limits):
                best[stop] = min(best[stop], best[start] + 1)
    return best[-1]


@settings(max_examples=300)
@given(SEQUENCES, LIMITS, st.data())
def test_chunks_keep_every_rule(events: list[Event], limits: BatchLimits, draw: st.DataObject) -> None:
    sizes = sized(events, draw)
    chunks = plan_chunks(events, sizes, limits)
    # Nothing is lost, doubled or moved.
    assert [index for chunk in chunks for index in range(chunk.start, chunk.stop)] == list(range(len(events)))
    for chunk in chunks:
        assert chunk.batch is (len(chunk) > 1)
        assert may_be_one_request(events[chunk.start : chunk.stop], sizes[chunk.start : chunk.stop], limits)
        if limits.max_events > 1 and chunk.stop < len(events):
            assert not is_pair(events[chunk.stop - 1], events[chunk.stop])


@settings(max_examples=300)
@given(SEQUENCES, LIMITS, st.data())
def test_there_are_no_more_chunks_than_must_be(
    events: list[Event], limits: BatchLimits, draw: st.DataObject
) -> None:
    sizes = sized(events, draw)
    assert len(plan_chunks(events, sizes, limits)) == fewest(events, sizes, limits)


def shape(events: Sequence[Event], **limits: int) -> list[tuple[int, bool]]:
    chunks = plan_chunks(events, [10] * len(events), BatchLimits(**limits))
    return [(len(chunk), chunk.batch) for chunk in chunks]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], []),
        (steps(1), [(1, False)]),
        (steps(2), [(2, True)]),
        (steps(32), [(32, True)]),
        (steps(33), [(32, True), (1, False)]),
        (steps(64), [(32, True), (32, True)]),
        # The pair would be split at the limit, so it goes to the next one whole.
        ([*steps(31), *pair()], [(31, True), (2, True)]),
        ([*steps(30), *pair()], [(32, True)]),
        (pair(), [(2, True)]),
        ([*pair("a"), *pair("b")], [(4, True)]),
        ([event("step_created"), event("step_completed")], [(1, False), (1, False)]),
        ([*pair("a"), event("step_completed", "a")], [(2, True), (1, False)]),
        ([*steps(2), event("hook_created", "h"), *steps(2, 2)], [(2, True), (1, False), (2, True)]),
        ([event("run_created"), event("run_started")], [(1, False), (1, False)]),
        ([*steps(2), event("run_completed")], [(3, True)]),
        ([event("step_started", "a"), event("step_started", "b")], [(2, True)]),
        ([event("step_created", "a"), LAZY[0]], [(1, False), (1, False)]),
        ([event("wait_created", "a"), event("step_created", "a")], [(2, True)]),
    ],
)
def test_how_events_are_cut(events: list[Event], expected: list[tuple[int, bool]]) -> None:
    assert shape(events) == expected


def test_batches_of_one_are_single_posts_and_know_no_pair() -> None:
    assert shape([*pair(), *steps(2)], max_events=1) == [(1, False)] * 4


def test_bytes_count_as_well() -> None:
    assert shape(steps(5), max_bytes=20) == [(2, True), (2, True), (1, False)]
    assert shape([*steps(1), *pair()], max_bytes=20) == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("events", "sizes", "index", "field", "said"),
    [
        ([*steps(1), event("step_completed", "x")], [5, 21], 1, "eventData.result", "it takes 21 bytes"),
        ([event("attr_set")], [21], 0, "eventData.changes", "it takes 21 bytes"),
        (pair(), [15, 6], 0, "eventData.input", "the pair it opens takes 21 bytes"),
        (pair(), [25, 6], 0, "eventData.input", "it takes"),
    ],
)
def test_what_is_too_large_is_refused_by_index_and_field(
    events: list[Event], sizes: list[int], index: int, field: str, said: str
) -> None:
    with pytest.raises(InvalidEventError, match=said) as refused:
        plan_chunks(events, sizes, BatchLimits(max_bytes=20))
    assert (refused.value.event_index, refused.value.field) == (index, field)


def test_what_just_fits_is_taken() -> None:
    assert plan_chunks(pair(), [14, 6], BatchLimits(max_bytes=20)) == [Chunk(0, 2, batch=True)]


def test_batches_of_one_are_single_posts_and_keep_no_pair_together() -> None:
    chunks = plan_chunks(pair(), [14, 6], BatchLimits(max_events=1, max_bytes=14))
    assert chunks == [Chunk(0, 1, batch=False), Chunk(1, 2, batch=False)]


@pytest.mark.parametrize("value", [0, -1, 51])
def test_the_count_limit_has_a_range(value: int) -> None:
    with pytest.raises(ConfigurationError, match="max_batch_events"):
        BatchLimits(max_events=value)


def test_the_byte_limit_has_a_range() -> None:
    with pytest.raises(ConfigurationError, match="max_batch_bytes"):
        BatchLimits(max_bytes=0)


def test_the_default_limits() -> None:
    assert BatchLimits() == BatchLimits(max_events=32, max_bytes=786_432)


def test_entities_are_told_apart_by_kind_and_key() -> None:
    assert entity_key(event("step_created", "a")) == entity_key(event("step_failed", "a"))
    assert entity_key(event("step_created", "a")) != entity_key(event("step_created", "b"))
    assert entity_key(event("step_created", "a")) != entity_key(event("wait_created", "a"))
    assert entity_key(event("run_completed")) == entity_key(event("run_cancelled"))
