"""How long to wait before asking for the result of a request that is still being executed."""

from __future__ import annotations

from typing import Final

from .budget import Budget
from .throttle import paced_wait

MIN_BACKOFF_S: Final = 0.1
"""First wait where neither the server nor the options name one: asking is never a busy loop."""
MAX_BACKOFF_S: Final = 5.0
BACKOFF_JITTER_SHARE: Final = 0.5
_MAX_DOUBLINGS: Final = 16


def collect_wait(
    budget: Budget, asked_s: float, *, rounds: int, backoff_s: float, jitter: float
) -> float | None:
    """Seconds to wait before asking again; None when `budget` does not cover it.

    Args:
        budget: what is left of the time to collect.
        asked_s: the pace the server named, seconds; at 0 the wait doubles from `backoff_s` up to
            `MAX_BACKOFF_S`, jittered.
        rounds: how often this request has been asked for already.
        backoff_s: the first wait where the server asks for none.
        jitter: a random number in [0, 1].
    """
    if asked_s > 0:
        return paced_wait(budget, asked_s, jitter)
    first_s = max(backoff_s, MIN_BACKOFF_S)
    wait_s = min(first_s * 2.0 ** min(rounds, _MAX_DOUBLINGS), MAX_BACKOFF_S)
    return budget.wait_for(wait_s, jitter * wait_s * BACKOFF_JITTER_SHARE)
