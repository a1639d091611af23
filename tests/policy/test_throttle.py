"""How long a throttle is waited out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.policy.budget import Budget
from eventclient.policy.throttle import MAX_JITTER_S, paced_wait


@pytest.mark.parametrize(
    ("asked_s", "jitter", "wait_s"),
    [
        (1, 0.0, 1),
        (1, 1.0, 1.1),
        (2, 0.5, 2.1),
        (2.5, 1.0, 2.75),
        (10, 1.0, 10.25),
        (29.9, 1.0, 30),
        (30, 1.0, 30),
        (31, 0.0, None),
    ],
)
def test_the_spread_is_small_positive_and_within_the_budget(
    asked_s: float, jitter: float, wait_s: float | None
) -> None:
    assert paced_wait(Budget(30), asked_s, jitter) == (None if wait_s is None else pytest.approx(wait_s))


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_a_wait_is_never_shorter_than_asked_nor_longer_than_what_is_left(
    left_s: float, asked_s: float, jitter: float
) -> None:
    wait_s = paced_wait(Budget(left_s), asked_s, jitter)
    if asked_s > left_s:
        assert wait_s is None
    else:
        assert wait_s is not None
        assert asked_s <= wait_s <= min(left_s, asked_s + MAX_JITTER_S)
