"""Budgets: what is waited fits, what has passed is charged, nothing is given back."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.policy.budget import Budget

SECONDS = st.floats(0, 1e6)


@given(SECONDS, st.lists(st.tuples(st.floats(), st.floats())))
def test_waits_never_exceed_the_budget_and_are_never_shorter_than_asked(
    budget_s: float, asks: list[tuple[float, float]]
) -> None:
    budget, waited = Budget(budget_s), 0.0
    for asked_s, jitter_s in asks:
        wait_s = budget.wait_for(asked_s, jitter_s)
        if wait_s is None:
            assert not 0 <= asked_s <= budget.left_s
            continue
        assert wait_s >= asked_s
        spent = budget.spend(wait_s)
        assert spent is not None
        budget = spent
        waited += wait_s
        assert budget.spent_s <= budget_s
    assert waited <= budget_s or math.isclose(waited, budget_s)


@pytest.mark.parametrize(
    ("left_s", "asked_s", "jitter_s", "wait_s"),
    [
        (30, 1, 0, 1),
        (30, 1, 0.25, 1.25),
        (30, 30, 0.25, 30),
        (30, 29.9, 0.25, 30),
        (30, 1, -5, 1),
        (30, 0, 0, 0),
        (30, 31, 0, None),
        (0, 1, 0, None),
        (0, 0, 1, 0),
        (30, -1, 0, None),
        (30, math.nan, 0, None),
        (30, math.inf, 0, None),
    ],
)
def test_the_wait_that_fits(left_s: float, asked_s: float, jitter_s: float, wait_s: float | None) -> None:
    assert Budget(left_s).wait_for(asked_s, jitter_s) == wait_s


@pytest.mark.parametrize("wait_s", [-0.1, 30.1, math.nan, math.inf])
def test_what_does_not_fit_is_not_spent(wait_s: float) -> None:
    assert Budget(30).spend(wait_s) is None


def test_spending_leaves_the_old_budget_as_it_was() -> None:
    budget = Budget(30)
    spent = budget.spend(7)
    assert spent == Budget(30, 7)
    assert spent is not None
    assert (spent.left_s, budget.left_s) == (23, 30)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.spent_s = 1  # type: ignore[misc]


def test_what_has_passed_is_charged_whether_it_fits_or_not() -> None:
    overdrawn = Budget(30, 20).charge(15)
    assert (overdrawn.spent_s, overdrawn.left_s) == (35, 0)
    assert overdrawn.spend(0.1) is None
    assert overdrawn.spend(0.0) == overdrawn


@pytest.mark.parametrize("elapsed_s", [0.0, -1.0])
def test_no_time_costs_nothing_and_gives_nothing_back(elapsed_s: float) -> None:
    assert Budget(30, 7).charge(elapsed_s) == Budget(30, 7)


@given(SECONDS, st.lists(st.tuples(st.booleans(), SECONDS)))
def test_nothing_is_ever_given_back(budget_s: float, history: list[tuple[bool, float]]) -> None:
    budget = Budget(budget_s)
    for passed, seconds in history:
        after = budget.charge(seconds) if passed else budget.spend(seconds) or budget
        assert after.spent_s >= budget.spent_s
        assert after.left_s >= 0
        budget = after
