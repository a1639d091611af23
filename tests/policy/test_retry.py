"""Whether a request is sent again, and after how long."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.errors import ConfigurationError
from eventclient.policy.classify import FailureClass
from eventclient.policy.retry import (
    NO_RETRY,
    READ_RULES,
    WRITE_RULES,
    Decision,
    GiveUp,
    Resend,
    RetryOptions,
    RetryState,
    Wait,
    decide,
)
from eventclient.policy.throttle import ThrottleBudget

DEFAULT = RetryOptions()
FAILURES = st.sampled_from(FailureClass)
UNIT = st.floats(0, 1)


def ask(
    failure: FailureClass,
    *,
    state: RetryState | None = None,
    options: RetryOptions = DEFAULT,
    read: bool = False,
    converges: bool = True,
    asked_s: float = 1.0,
    jitter: float = 0.0,
) -> Decision:
    state = state or RetryState(ThrottleBudget(options.throttle_budget_s))
    return decide(failure, state, options, read=read, converges=converges, asked_s=asked_s, jitter=jitter)


# -- the golden table --------------------------------------------------------------------------

# class -> (write that converges, write that does not, read): is it sent again?
GOLDEN = {
    FailureClass.THROTTLED: (True, True, False),
    FailureClass.NOT_SENT: (True, True, True),
    FailureClass.AMBIGUOUS: (True, False, True),
    FailureClass.REFUSED: (False, False, False),
    FailureClass.CHALLENGED: (False, False, False),
    FailureClass.REDIRECTED: (False, False, False),
}


def test_the_golden_table_is_total() -> None:
    assert set(GOLDEN) == set(WRITE_RULES) == set(READ_RULES) == set(FailureClass)


@pytest.mark.parametrize("failure", FailureClass)
def test_the_golden_table_of_decisions(failure: FailureClass) -> None:
    decisions = (
        ask(failure, converges=True),
        ask(failure, converges=False),
        ask(failure, converges=True, read=True),
    )
    assert tuple(isinstance(decision, Wait) for decision in decisions) == GOLDEN[failure]
    # Whether a read converges is not asked.
    assert ask(failure, converges=False, read=True) == decisions[2]


@pytest.mark.parametrize("rules", [WRITE_RULES, READ_RULES])
def test_the_rules_say_what_the_table_says(rules: dict[FailureClass, Resend]) -> None:
    for failure, (convergent, unsafe, read) in GOLDEN.items():
        if rules is READ_RULES:
            assert (rules[failure] is not Resend.NEVER) is read
        else:
            expected = {(True, True): Resend.ALWAYS, (True, False): Resend.IF_CONVERGENT}
            assert rules[failure] is expected.get((convergent, unsafe), Resend.NEVER)


# -- properties --------------------------------------------------------------------------------


@given(FAILURES, st.integers(0, 9), UNIT, UNIT, st.floats(0, 100))
def test_what_does_not_converge_is_never_sent_again_while_ambiguous(
    failure: FailureClass, retries: int, spent: float, jitter: float, asked_s: float
) -> None:
    state = RetryState(ThrottleBudget(30.0, 30.0 * spent), retries)
    decision = ask(failure, state=state, converges=False, jitter=jitter, asked_s=asked_s)
    if failure is FailureClass.AMBIGUOUS:
        assert isinstance(decision, GiveUp)


@given(st.lists(st.tuples(FAILURES, st.floats(1, 40), UNIT)), st.booleans(), st.booleans())
def test_counts_and_budget_hold_over_any_history(
    history: list[tuple[FailureClass, float, float]], converges: bool, read: bool
) -> None:
    state, throttled_s, resent = RetryState(ThrottleBudget(30.0)), 0.0, 0
    for failure, asked_s, jitter in history:
        decision = ask(failure, state=state, converges=converges, asked_s=asked_s, jitter=jitter, read=read)
        if isinstance(decision, GiveUp):
            assert decision.reason
            continue
        assert math.isfinite(decision.delay_s)
        if failure is FailureClass.THROTTLED:
            throttled_s += decision.delay_s
            assert decision.delay_s >= asked_s
            assert decision.state.retries == state.retries
        else:
            resent += 1
            assert decision.state.budget == state.budget
        state = decision.state
    assert throttled_s <= 30.0 + 1e-9
    assert resent <= (DEFAULT.read_retries if read else DEFAULT.transient_retries)


@given(FAILURES, st.booleans(), st.booleans(), UNIT, st.floats(1, 1e9))
def test_no_retry_never_sends_again(
    failure: FailureClass, converges: bool, read: bool, jitter: float, asked_s: float
) -> None:
    decision = ask(failure, options=NO_RETRY, converges=converges, read=read, jitter=jitter, asked_s=asked_s)
    assert isinstance(decision, GiveUp)


# -- waits -------------------------------------------------------------------------------------


def waits(failure: FailureClass, jitter: float, *, read: bool = False, asked_s: float = 0.0) -> list[float]:
    told: list[float] = []
    state = RetryState(ThrottleBudget(30.0))
    for _ in itertools.count():
        decision = ask(failure, state=state, jitter=jitter, read=read, asked_s=asked_s)
        if isinstance(decision, GiveUp):
            return told
        told.append(decision.delay_s)
        state = decision.state
    raise AssertionError


@pytest.mark.parametrize("failure", [FailureClass.AMBIGUOUS, FailureClass.NOT_SENT])
@pytest.mark.parametrize(
    ("jitter", "expected"), [(0.0, [0.1, 0.2]), (1.0, [0.15, 0.25]), (0.5, [0.125, 0.225])]
)
def test_backoff_doubles_with_a_positive_jitter(
    failure: FailureClass, jitter: float, expected: list[float]
) -> None:
    assert waits(failure, jitter) == pytest.approx(expected)


def test_reads_back_off_from_half_a_second() -> None:
    assert waits(FailureClass.AMBIGUOUS, 0.0, read=True) == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_reads_wait_at_least_as_long_as_asked() -> None:
    assert waits(FailureClass.AMBIGUOUS, 0.0, read=True, asked_s=3.0) == [3.0, 3.0, 3.0, 4.0, 8.0]


def test_writes_back_off_as_they_do_whatever_a_broken_server_asks() -> None:
    assert waits(FailureClass.AMBIGUOUS, 0.0, asked_s=3.0) == [0.1, 0.2]


@pytest.mark.parametrize(
    ("asked_s", "count"), [(1, 30), (2, 15), (7, 4), (10, 3), (15, 2), (16, 1), (30, 1), (31, 0)]
)
def test_how_often_an_endless_throttle_is_waited_for(asked_s: float, count: int) -> None:
    assert waits(FailureClass.THROTTLED, 0.0, asked_s=asked_s) == [asked_s] * count


@pytest.mark.parametrize(
    ("asked_s", "first"), [(1, 1.1), (2, 2.2), (2.5, 2.75), (10, 10.25), (29.9, 30.0), (30, 30.0)]
)
def test_the_throttle_jitter_is_small_positive_and_within_the_budget(asked_s: float, first: float) -> None:
    assert waits(FailureClass.THROTTLED, 1.0, asked_s=asked_s)[0] == pytest.approx(first)


def test_throttling_and_retries_are_counted_apart() -> None:
    state = RetryState(ThrottleBudget(30.0), retries=2)
    assert isinstance(ask(FailureClass.THROTTLED, state=state), Wait)
    spent = RetryState(ThrottleBudget(30.0, 30.0), retries=0)
    assert isinstance(ask(FailureClass.AMBIGUOUS, state=spent), Wait)


# -- options -----------------------------------------------------------------------------------

NUMBERS = ("transient_retries", "backoff_s", "throttle_budget_s", "read_retries", "read_backoff_s")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, -0.001, math.inf, math.nan])
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=name):
        RetryOptions(**options)


@pytest.mark.parametrize("name", NUMBERS)
def test_zero_switches_a_part_off(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    assert getattr(RetryOptions(**options), name) == 0


def test_the_scope_is_one_of_two() -> None:
    RetryOptions(throttle_scope="call")
    with pytest.raises(ConfigurationError, match="throttle_scope"):
        RetryOptions(throttle_scope="run")  # type: ignore[arg-type]


def test_the_defaults() -> None:
    assert (
        RetryOptions(
            transient_retries=2,
            backoff_s=0.1,
            throttle_budget_s=30.0,
            throttle_scope="post",
            read_retries=5,
            read_backoff_s=0.5,
        )
        == DEFAULT
    )


def test_a_read_does_not_sleep_for_longer_than_the_budget() -> None:
    def after(asked_s: float) -> object:
        return decide(
            FailureClass.AMBIGUOUS,
            RetryState(ThrottleBudget(30.0)),
            RetryOptions(),
            read=True,
            converges=True,
            asked_s=asked_s,
            jitter=0.0,
        )

    assert isinstance(after(30.0), Wait)
    assert isinstance(after(31.0), GiveUp)
