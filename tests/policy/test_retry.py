"""Whether a request is sent again, and after how long."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.errors import ConfigurationError
from eventclient.policy.budget import Budget
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
    fresh_state,
)

DEFAULT = RetryOptions()
FAILURES = st.sampled_from(FailureClass)
UNIT = st.floats(0, 1)


def ask(
    failure: FailureClass,
    *,
    state: RetryState | None = None,
    options: RetryOptions = DEFAULT,
    read: bool = False,
    safe: bool = True,
    asked_s: float | None = 1.0,
    elapsed_s: float = 0.0,
    jitter: float = 0.0,
) -> Decision:
    return decide(
        failure,
        state or fresh(options),
        options,
        read=read,
        safe=safe,
        asked_s=asked_s,
        elapsed_s=elapsed_s,
        jitter=jitter,
    )


def fresh(options: RetryOptions = DEFAULT, **used: Any) -> RetryState:
    return replace(fresh_state(options, Budget(options.throttle_budget_s)), **used)


# -- the golden table --------------------------------------------------------------------------

# class -> (write that is safe to send twice, write that is not, read): is it sent again?
GOLDEN = {
    FailureClass.THROTTLED: (True, True, False),
    FailureClass.NOT_SENT: (True, True, True),
    FailureClass.AMBIGUOUS: (True, False, True),
    FailureClass.PENDING: (True, True, False),
    FailureClass.REFUSED: (False, False, False),
    FailureClass.CHALLENGED: (False, False, False),
    FailureClass.REDIRECTED: (False, False, False),
}


def test_the_golden_table_is_total() -> None:
    assert set(GOLDEN) == set(WRITE_RULES) == set(READ_RULES) == set(FailureClass)


@pytest.mark.parametrize("failure", FailureClass)
def test_the_golden_table_of_decisions(failure: FailureClass) -> None:
    decisions = (
        ask(failure, safe=True),
        ask(failure, safe=False),
        ask(failure, safe=True, read=True),
    )
    assert tuple(isinstance(decision, Wait) for decision in decisions) == GOLDEN[failure]
    # Whether a read is safe is not asked.
    assert ask(failure, safe=False, read=True) == decisions[2]


@pytest.mark.parametrize("rules", [WRITE_RULES, READ_RULES])
def test_the_rules_say_what_the_table_says(rules: dict[FailureClass, Resend]) -> None:
    for failure, (convergent, unsafe, read) in GOLDEN.items():
        if rules is READ_RULES:
            assert (rules[failure] is not Resend.NEVER) is read
        else:
            always = Resend.IF_PACED if failure is FailureClass.PENDING else Resend.ALWAYS
            expected = {(True, True): always, (True, False): Resend.IF_SAFE}
            assert rules[failure] is expected.get((convergent, unsafe), Resend.NEVER)


# -- properties --------------------------------------------------------------------------------


@given(FAILURES, st.integers(0, 9), UNIT, UNIT, st.floats(0, 100))
def test_what_is_not_safe_is_never_sent_again_while_ambiguous(
    failure: FailureClass, retries: int, spent: float, jitter: float, asked_s: float
) -> None:
    state = fresh(throttle=Budget(30.0, 30.0 * spent), retries=retries)
    decision = ask(failure, state=state, safe=False, jitter=jitter, asked_s=asked_s)
    if failure is FailureClass.AMBIGUOUS:
        assert isinstance(decision, GiveUp)


HISTORIES = st.lists(st.tuples(FAILURES, st.floats(1, 400), st.floats(0, 100), UNIT))


@given(HISTORIES, st.booleans())
def test_every_class_is_charged_to_its_own_budget_over_any_history(
    history: list[tuple[FailureClass, float, float, float]], safe: bool
) -> None:
    state, resent = fresh(), 0
    spent = {"throttle": 0.0, "fast": 0.0, "collect": 0.0}
    for failure, asked_s, elapsed_s, jitter in history:
        decision = ask(failure, state=state, safe=safe, asked_s=asked_s, elapsed_s=elapsed_s, jitter=jitter)
        if isinstance(decision, GiveUp):
            assert decision.reason
            continue
        assert math.isfinite(decision.delay_s)
        own = {FailureClass.THROTTLED: "throttle", FailureClass.PENDING: "collect"}.get(failure, "fast")
        spent[own] += decision.delay_s + (0.0 if own == "throttle" else elapsed_s)
        if own != "fast":
            assert decision.delay_s >= asked_s
        resent += own == "fast"
        state = decision.state
        for name, amount in spent.items():
            assert getattr(state, name).spent_s == pytest.approx(amount)
        assert (state.retries, state.rounds) == (resent, state.rounds)
    assert spent["throttle"] <= 30.0 + 1e-9
    assert spent["fast"] <= 60.0 + 1e-9
    assert spent["collect"] <= 1200.0 + 1e-9
    assert resent <= DEFAULT.transient_retries


@given(HISTORIES)
def test_reads_draw_on_no_budget_of_writes(
    history: list[tuple[FailureClass, float, float, float]],
) -> None:
    state, resent = fresh(), 0
    for failure, asked_s, elapsed_s, jitter in history:
        decision = ask(failure, state=state, read=True, asked_s=asked_s, elapsed_s=elapsed_s, jitter=jitter)
        if isinstance(decision, Wait):
            resent += 1
            state = decision.state
            assert replace(state, retries=0) == fresh()
    assert resent <= DEFAULT.read_retries


@given(FAILURES, st.booleans(), st.booleans(), UNIT, st.none() | st.floats(0, 1e9))
def test_no_retry_never_sends_again(
    failure: FailureClass, safe: bool, read: bool, jitter: float, asked_s: float | None
) -> None:
    # A 429 without a pace is read as one that asks for a second.
    if failure is FailureClass.THROTTLED:
        asked_s = max(asked_s or 0.0, 1.0)
    decision = ask(failure, options=NO_RETRY, safe=safe, read=read, jitter=jitter, asked_s=asked_s)
    assert isinstance(decision, GiveUp)


# -- waits -------------------------------------------------------------------------------------


def waits(failure: FailureClass, jitter: float, *, read: bool = False, asked_s: float = 0.0) -> list[float]:
    told: list[float] = []
    state = fresh()
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
    assert isinstance(ask(FailureClass.THROTTLED, state=fresh(retries=2)), Wait)
    spent = fresh(throttle=Budget(30.0, 30.0))
    assert isinstance(ask(FailureClass.AMBIGUOUS, state=spent), Wait)


# -- what is still being executed --------------------------------------------------------------


@pytest.mark.parametrize("asked_s", [0.0, 1.0, 1200.0])
@pytest.mark.parametrize("safe", [True, False])
def test_both_gates_open_a_result_is_collected_whatever_the_events(asked_s: float, safe: bool) -> None:
    decision = ask(FailureClass.PENDING, asked_s=asked_s, safe=safe)
    assert isinstance(decision, Wait)
    assert decision.delay_s == (asked_s or 0.1)


@pytest.mark.parametrize(
    ("asked_s", "options", "used", "reason"),
    [
        (None, DEFAULT, {}, "no pace"),
        (1.0, RetryOptions(collect=False, transient_retries=9), {}, "not collected"),
        (1201.0, DEFAULT, {}, "does not cover"),
        (1.0, RetryOptions(collect_budget_s=0.5), {}, "does not cover"),
        (1.0, DEFAULT, {"collect": Budget(1200.0, 1199.5)}, "does not cover"),
    ],
)
def test_else_it_is_given_up_at_once(
    asked_s: float | None, options: RetryOptions, used: dict[str, Any], reason: str
) -> None:
    decision = ask(FailureClass.PENDING, asked_s=asked_s, options=options, state=fresh(options, **used))
    assert isinstance(decision, GiveUp)
    assert reason in decision.reason


def test_an_attempt_that_asks_is_paid_from_the_budget_to_collect() -> None:
    assert isinstance(ask(FailureClass.PENDING, asked_s=200.0, elapsed_s=1000.0), Wait)
    assert isinstance(ask(FailureClass.PENDING, asked_s=200.0, elapsed_s=1000.1), GiveUp)


@pytest.mark.parametrize("failure", [FailureClass.AMBIGUOUS, FailureClass.NOT_SENT])
def test_an_attempt_that_fails_is_paid_from_the_fast_budget(failure: FailureClass) -> None:
    assert isinstance(ask(failure, elapsed_s=59.8), Wait)
    assert isinstance(ask(failure, elapsed_s=59.95), GiveUp)
    # An attempt that is throttled costs its wait alone.
    assert isinstance(ask(FailureClass.THROTTLED, asked_s=30.0, elapsed_s=1e6), Wait)


def test_what_one_class_has_spent_is_left_alone_by_the_others() -> None:
    spent = fresh(fast=Budget(60.0, 60.0), retries=2, throttle=Budget(30.0, 30.0))
    assert isinstance(ask(FailureClass.PENDING, state=spent), Wait)
    collected = fresh(collect=Budget(1200.0, 1200.0), rounds=99)
    assert isinstance(ask(FailureClass.AMBIGUOUS, state=collected), Wait)
    assert isinstance(ask(FailureClass.THROTTLED, state=collected), Wait)


def test_another_purse_changes_nothing_else() -> None:
    state = fresh(retries=1, rounds=2)
    assert state.drawing_on(state.throttle) is state
    other = Budget(5.0)
    assert state.drawing_on(other) == replace(state, throttle=other)


# -- options -----------------------------------------------------------------------------------

NUMBERS = (
    "transient_retries",
    "backoff_s",
    "fast_budget_s",
    "collect_budget_s",
    "throttle_budget_s",
    "read_retries",
    "read_backoff_s",
)


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
            fast_budget_s=60.0,
            collect=True,
            collect_budget_s=1200.0,
            read_back=True,
            throttle_budget_s=30.0,
            throttle_scope="post",
            read_retries=5,
            read_backoff_s=0.5,
        )
        == DEFAULT
    )


def test_a_read_does_not_sleep_for_longer_than_the_budget() -> None:
    assert isinstance(ask(FailureClass.AMBIGUOUS, read=True, asked_s=30.0), Wait)
    assert isinstance(ask(FailureClass.AMBIGUOUS, read=True, asked_s=31.0), GiveUp)
    assert isinstance(ask(FailureClass.AMBIGUOUS, read=True, asked_s=None), Wait)


def test_no_retry_switches_everything_off() -> None:
    assert (NO_RETRY.transient_retries, NO_RETRY.read_retries) == (0, 0)
    assert (NO_RETRY.throttle_budget_s, NO_RETRY.collect_budget_s) == (0.0, 0.0)
    assert (NO_RETRY.collect, NO_RETRY.read_back) == (False, False)
