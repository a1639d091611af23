"""How long a 429 is waited out: never shorter than asked, a little spread on top, within a budget."""

from __future__ import annotations

from typing import Final

from .budget import Budget

JITTER_SHARE: Final = 0.1
MAX_JITTER_S: Final = 0.25


def paced_wait(budget: Budget, asked_s: float, jitter: float) -> float | None:
    """Seconds to wait when a server asks for `asked_s`; None when `budget` does not cover it.

    Args:
        budget: what is left to wait.
        asked_s: what the server asked for, seconds.
        jitter: a random number in [0, 1], so that many clients do not come back at one instant.
    """
    return budget.wait_for(asked_s, jitter * min(asked_s * JITTER_SHARE, MAX_JITTER_S))
