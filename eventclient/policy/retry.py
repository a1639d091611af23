"""Whether a request is sent again, and after how long. One table, one function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from eventclient.errors import ConfigurationError

from .classify import FailureClass
from .throttle import ThrottleBudget

BACKOFF_JITTER_S: Final = 0.05
THROTTLE_JITTER_SHARE: Final = 0.1
MAX_THROTTLE_JITTER_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How much a client tries. Seconds and counts; 0 switches a part off.

    Attributes:
        transient_retries: how often a write is sent again after an ambiguous failure, if its events
            converge, or after it could not be sent at all. At least 0.
        backoff_s: wait before the first of these retries; doubled for each next one.
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
    throttle_budget_s: float = 30.0
    throttle_scope: Literal["post", "call"] = "post"
    read_retries: int = 5
    read_backoff_s: float = 0.5

    def __post_init__(self) -> None:
        for name in ("transient_retries", "backoff_s", "throttle_budget_s", "read_retries", "read_backoff_s"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ConfigurationError(f"RetryOptions({name}={value!r}): must be finite and at least 0")
        if self.throttle_scope not in ("post", "call"):
            raise ConfigurationError('RetryOptions(throttle_scope=...): must be "post" or "call"')


NO_RETRY: Final = RetryOptions(transient_retries=0, throttle_budget_s=0.0, read_retries=0)
"""Every request is sent once; a 429 raises at once."""


class Resend(StrEnum):
    """When a failed request may be sent again."""

    ALWAYS = "always"
    IF_CONVERGENT = "if every event in it converges"
    NEVER = "never"


WRITE_RULES: Final[Mapping[FailureClass, Resend]] = MappingProxyType(
    {
        FailureClass.THROTTLED: Resend.ALWAYS,
        FailureClass.NOT_SENT: Resend.ALWAYS,
        FailureClass.AMBIGUOUS: Resend.IF_CONVERGENT,
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
    }
)


@dataclass(frozen=True, slots=True)
class RetryState:
    """What one request has used up so far."""

    budget: ThrottleBudget
    retries: int = 0


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
    converges: bool,
    asked_s: float,
    jitter: float,
) -> Decision:
    """What to do after an attempt that met `failure`.

    Args:
        failure: its class.
        state: what the request has used up.
        options: the caller's.
        read: whether the request is a read.
        converges: whether sending it twice leaves the same log.
        asked_s: seconds the server asked to wait; counts for 429, and for reads as the least wait.
        jitter: a random number in [0, 1].
    """
    resend = (READ_RULES if read else WRITE_RULES)[failure]
    if resend is Resend.NEVER:
        return GiveUp(f"a request that was {failure} is not sent again")
    if failure is FailureClass.THROTTLED:
        return _throttled(state, asked_s, jitter)
    if resend is Resend.IF_CONVERGENT and not converges:
        return GiveUp("it holds an event that is not safe to send twice")
    retries = options.read_retries if read else options.transient_retries
    if state.retries >= retries:
        return GiveUp(f"it was sent again {state.retries} times" if state.retries else "retries are off")
    first_s = options.read_backoff_s if read else options.backoff_s
    delay_s = first_s * 2**state.retries + jitter * BACKOFF_JITTER_S
    if read:
        if asked_s > options.throttle_budget_s:
            return GiveUp(f"the server asks to wait {asked_s:g} s, longer than the throttle budget")
        delay_s = max(delay_s, asked_s)
    return Wait(delay_s, replace(state, retries=state.retries + 1))


def _throttled(state: RetryState, asked_s: float, jitter: float) -> Decision:
    spread_s = min(asked_s * THROTTLE_JITTER_SHARE, MAX_THROTTLE_JITTER_S)
    wait_s = state.budget.wait_for(asked_s, jitter * spread_s)
    spent = None if wait_s is None else state.budget.spend(wait_s)
    if wait_s is None or spent is None:
        return GiveUp("the throttle budget does not cover the wait")
    return Wait(wait_s, replace(state, budget=spent))
