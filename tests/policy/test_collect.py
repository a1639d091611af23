"""At what pace a result is asked for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.policy.budget import Budget
from eventclient.policy.collect import MAX_BACKOFF_S, MIN_BACKOFF_S, collect_wait

UNIT = st.floats(0, 1)


def wait(
    asked_s: float, *, left_s: float = 1200.0, rounds: int = 0, backoff_s: float = 0.1, jitter: float = 0.0
) -> float | None:
    return collect_wait(Budget(left_s), asked_s, rounds=rounds, backoff_s=backoff_s, jitter=jitter)


@pytest.mark.parametrize("asked_s", [1, 2, 60, 1200])
@pytest.mark.parametrize("rounds", [0, 7, 2000])
def test_the_pace_of_the_server_is_kept_however_often_it_is_asked(asked_s: float, rounds: int) -> None:
    assert wait(asked_s, rounds=rounds) == asked_s


@pytest.mark.parametrize(("asked_s", "expected"), [(1, 1.1), (2, 2.2), (60, 60.25), (1200, 1200)])
def test_a_small_spread_is_on_top(asked_s: float, expected: float) -> None:
    assert wait(asked_s, jitter=1.0) == pytest.approx(expected)


def test_without_a_pace_the_wait_doubles_up_to_a_limit() -> None:
    waits = [wait(0, rounds=rounds) for rounds in range(9)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])
    assert wait(0, rounds=10**9) == MAX_BACKOFF_S


def test_without_a_pace_the_wait_is_jittered() -> None:
    assert wait(0, rounds=1, jitter=1.0) == pytest.approx(0.3)


def test_asking_is_never_a_busy_loop() -> None:
    assert wait(0, backoff_s=0.0) == MIN_BACKOFF_S
    budget = Budget(1200.0)
    for rounds in itertools.count():
        wait_s = collect_wait(budget, 0, rounds=rounds, backoff_s=0.0, jitter=0.0)
        spent = None if wait_s is None else budget.spend(wait_s)
        if spent is None:
            break
        budget = spent
    assert rounds < 300


@pytest.mark.parametrize(("asked_s", "left_s"), [(5, 4.9), (1, 0), (0, 0.05), (0, 0)])
def test_a_wait_that_does_not_fit_is_not_begun(asked_s: float, left_s: float) -> None:
    assert wait(asked_s, left_s=left_s) is None


@given(st.floats(0, 2000), st.floats(0, 2000), st.integers(0, 10**6), st.floats(0, 100), UNIT)
def test_never_shorter_than_asked_never_longer_than_what_is_left(
    asked_s: float, left_s: float, rounds: int, backoff_s: float, jitter: float
) -> None:
    wait_s = wait(asked_s, left_s=left_s, rounds=rounds, backoff_s=backoff_s, jitter=jitter)
    if wait_s is not None:
        assert asked_s <= wait_s <= left_s
        assert wait_s > 0
