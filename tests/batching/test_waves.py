"""Which requests of a call may fly together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.batching.chunks import BatchLimits, Chunk, entity_key, plan_chunks, plan_waves
from eventclient.model.events import Event
from tests.client.samples import TYPES, event, pair, steps

EVENTS = st.lists(st.sampled_from([event(kind, key) for kind in TYPES for key in "abcd"]), max_size=14)


def planned(events: Sequence[Event], max_events: int, concurrency: int) -> list[list[Chunk]]:
    chunks = plan_chunks(events, [1] * len(events), BatchLimits(max_events=max_events))
    return plan_waves(chunks, events, concurrency)


@given(EVENTS, st.integers(1, 4), st.integers(1, 5))
def test_waves_keep_order_and_hold_only_what_is_independent(
    events: list[Event], max_events: int, concurrency: int
) -> None:
    chunks = plan_chunks(events, [1] * len(events), BatchLimits(max_events=max_events))
    waves = plan_waves(chunks, events, concurrency)
    assert [chunk for wave in waves for chunk in wave] == chunks
    for wave in waves:
        assert 1 <= len(wave) <= concurrency
        if len(wave) > 1:
            keys = [{entity_key(each) for each in events[chunk.start : chunk.stop]} for chunk in wave]
            assert sum(map(len, keys)) == len(set().union(*keys))
            assert {kind for kind, _ in set().union(*keys)} <= {"step", "wait"}


@given(EVENTS)
def test_one_at_a_time_is_one_after_another(events: list[Event]) -> None:
    assert all(len(wave) == 1 for wave in planned(events, 4, 1))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (steps(8), [4]),
        (steps(10), [4, 1]),
        ([*steps(4), event("run_completed")], [2, 1]),
        ([*steps(4), event("hook_created", "h"), *steps(4, 4)], [2, 1, 2]),
        ([*steps(4), event("attr_set"), *steps(4, 4)], [2, 1, 2]),
        # The third request changes the step of the first.
        ([*steps(4), event("step_completed", "step_0"), event("wait_created", "w")], [2, 1]),
        ([*pair("a"), *pair("b")], [2]),
        ([], []),
    ],
)
def test_how_requests_of_two_events_fly(events: list[Event], expected: list[int]) -> None:
    assert [len(wave) for wave in planned(events, 2, 4)] == expected
