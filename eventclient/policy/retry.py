"""Whether a request is sent again, and after how long. One table, one function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from eventclient.errors import ConfigurationError

from .budget import Budget
from .classify import FailureClass
from .collect import collect_wait
from .throttle import paced_wait

BACKOFF_JITTER_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How much a client tries. Seconds and counts; 0 switches a part off.

    Attributes:
        transient_retries: how often a write is sent again after an ambiguous failure, if its events
            converge or the server keeps idempotency keys, or after it could not be sent at all. At least 0.
        backoff_s: wait before the first of these retries; doubled for each next one.
        fast_budget_s: most seconds that such attempts and the waits behind them take in all.
        collect: send again, under its key, what a server says it is still executing, at the pace it names.
        collect_budget_s: most seconds that such attempts and the waits behind them take in all.
        read_back: read the log to find out whose write a 409 met behind an answer that was lost, where the
            server keeps no keys.
        throttle_budget_s: most seconds waited for 429 answers in all.
        throttle_scope: ``"post"`` gives each request the whole budget, ``"call"`` spends one budget
            over all requests of a `create_batch`.
        read_retries: how often a read is sent again after a failure that may pass.
        read_backoff_s: wait before the first of these; doubled for each next one.

    Raises:
        ConfigurationError: a value is negative or not finite.
    """

    transient_retries: int = 2
    backoff_s: float = 0.1
    fast_budget_s: float = 60.0
    collect: bool = True
    collect_budget_s: float = 1200.0
    read_back: bool = True
    throttle_budget_s: float = 30.0
    throttle_scope: Literal["post", "call"] = "post"
    read_retries: int = 5
    read_backoff_s: float = 0.5

    def __post_init__(self) -> None:
        for name in _AMOUNTS:
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ConfigurationError(f"RetryOptions({name}={value!r}): must be finite and at least 0")
        if self.throttle_scope not in ("post", "call"):
            raise ConfigurationError('RetryOptions(throttle_scope=...): must be "post" or "call"')


_AMOUNTS: Final = (
    "transient_retries",
    "backoff_s",
    "fast_budget_s",
    "collect_budget_s",
    "throttle_budget_s",
    "read_retries",
    "read_backoff_s",
)

NO_RETRY: Final = RetryOptions(
    transient_retries=0,
    collect=False,
    collect_budget_s=0.0,
    read_back=False,
    throttle_budget_s=0.0,
    read_retries=0,
)
"""Every request is sent once; a 429 raises at once, and nothing is read to find out more."""


class Resend(StrEnum):
    """When a failed request may be sent again."""

    ALWAYS = "always"
    IF_SAFE = "if sending it twice leaves the same log"
    IF_PACED = "if the server names the pace"
    NEVER = "never"


WRITE_RULES: Final[Mapping[FailureClass, Resend]] = MappingProxyType(
    {
        FailureClass.THROTTLED: Resend.ALWAYS,
        FailureClass.NOT_SENT: Resend.ALWAYS,
        FailureClass.AMBIGUOUS: Resend.IF_SAFE,
        FailureClass.PENDING: Resend.IF_PACED,
        FailureClass.REFUSED: Resend.NEVER,
        FailureClass.CHALLENGED: Resend.NEVER,
        FailureClass.REDIRECTED: Resend.NEVER,
    }
)
READ_RULES: Final[Mapping[FailureClass, Resend]] = MappingProxyType(
    {
        **WRITE_RULES,
        # A read changes nothing, so it may be repeated; the reference hands a reader's 429 to the caller.
        FailureClass.AMBIGUOUS: Resend.ALWAYS,
        FailureClass.THROTTLED: Resend.NEVER,
        # A read carries no key under which a result could be waiting.
        FailureClass.PENDING: Resend.NEVER,
    }
)


@dataclass(frozen=True, slots=True)
class RetryState:
    """What one request has used up so far. No part of it is ever given back.

    Attributes:
        throttle: for waits behind 429 answers.
        fast: for attempts that ended ambiguously or were not sent, and the waits behind them.
        collect: for attempts that found the request still being executed, and the waits behind them.
        retries: how often it was sent again from `fast`.
        rounds: how often it was sent again from `collect`.
    """

    throttle: Budget
    fast: Budget
    collect: Budget
    retries: int = 0
    rounds: int = 0

    def drawing_on(self, throttle: Budget) -> RetryState:
        """The same with another throttle budget: several requests may share one."""
        return self if throttle is self.throttle else replace(self, throttle=throttle)


def fresh_state(options: RetryOptions, throttle: Budget) -> RetryState:
    """The state before the first attempt of a request that draws on `throttle`."""
    return RetryState(throttle, Budget(options.fast_budget_s), Budget(options.collect_budget_s))


@dataclass(frozen=True, slots=True)
class Wait:
    """Send again after `delay_s` seconds, from `state`."""

    delay_s: float
    state: RetryState


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not send again; `reason` says why."""

    reason: str


Decision = Wait | GiveUp


def decide(
    failure: FailureClass,
    state: RetryState,
    options: RetryOptions,
    *,
    read: bool,
    safe: bool,
    asked_s: float | None,
    elapsed_s: float,
    jitter: float,
) -> Decision:
    """What to do after an attempt that met `failure`.

    Args:
        failure: its class.
        state: what the request has used up before that attempt.
        options: the caller's.
        read: whether the request is a read.
        safe: whether sending it twice leaves the same log, by its events or by its key.
        asked_s: seconds the server asked to wait, at least 0; None when it named none. Counts for 429, for
            what is still being executed, and for reads as the least wait.
        elapsed_s: seconds since the attempt began.
        jitter: a random number in [0, 1].
    """
    resend = (READ_RULES if read else WRITE_RULES)[failure]
    if resend is Resend.NEVER:
        return GiveUp(f"a request that was {failure} is not sent again")
    if failure is FailureClass.THROTTLED:
        return _throttled(state, asked_s or 0.0, jitter)
    if resend is Resend.IF_PACED:
        return _collected(state, options, asked_s, elapsed_s, jitter)
    if resend is Resend.IF_SAFE and not safe:
        return GiveUp("it holds an event that is not safe to send twice")
    retries = options.read_retries if read else options.transient_retries
    if state.retries >= retries:
        return GiveUp(f"it was sent again {state.retries} times" if state.retries else "retries are off")
    first_s = options.read_backoff_s if read else options.backoff_s
    delay_s = first_s * 2**state.retries + jitter * BACKOFF_JITTER_S
    if not read:
        return _sent_again(state, delay_s, elapsed_s)
    if asked_s is not None and asked_s > options.throttle_budget_s:
        return GiveUp(f"the server asks to wait {asked_s:g} s, longer than the throttle budget")
    return Wait(max(delay_s, asked_s or 0.0), replace(state, retries=state.retries + 1))


def _throttled(state: RetryState, asked_s: float, jitter: float) -> Decision:
    wait_s = paced_wait(state.throttle, asked_s, jitter)
    spent = None if wait_s is None else state.throttle.spend(wait_s)
    if wait_s is None or spent is None:
        return GiveUp("the throttle budget does not cover the wait")
    return Wait(wait_s, replace(state, throttle=spent))


def _sent_again(state: RetryState, delay_s: float, elapsed_s: float) -> Decision:
    spent = state.fast.charge(elapsed_s).spend(delay_s)
    if spent is None:
        return GiveUp("the budget for attempts that fail does not cover the wait")
    return Wait(delay_s, replace(state, fast=spent, retries=state.retries + 1))


def _collected(
    state: RetryState, options: RetryOptions, asked_s: float | None, elapsed_s: float, jitter: float
) -> Decision:
    if not options.collect:
        return GiveUp("results are not collected")
    if asked_s is None:
        return GiveUp("the server names no pace at which to ask for the result")
    budget = state.collect.charge(elapsed_s)
    wait_s = collect_wait(budget, asked_s, rounds=state.rounds, backoff_s=options.backoff_s, jitter=jitter)
    spent = None if wait_s is None else budget.spend(wait_s)
    if wait_s is None or spent is None:
        return GiveUp("the budget for collecting the result does not cover the wait")
    return Wait(wait_s, replace(state, collect=spent, rounds=state.rounds + 1))
