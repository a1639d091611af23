"""How long one post, or one call, may wait for throttling in all."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ThrottleBudget:
    """Seconds that may be spent waiting, and seconds spent. Immutable: spending gives a new one.

    Attributes:
        budget_s: all there is.
        spent_s: what has been waited, never more than `budget_s`.
    """

    budget_s: float
    spent_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds still to spend."""
        return self.budget_s - self.spent_s

    def wait_for(self, asked_s: float, jitter_s: float) -> float | None:
        """Seconds to wait when the server asks for `asked_s`; None when that does not fit any more.

        Never shorter than asked. The jitter on top is cut to what the budget leaves.
        """
        if not 0 <= asked_s <= self.left_s:
            return None
        return min(asked_s + max(0.0, jitter_s), self.left_s)

    def spend(self, wait_s: float) -> ThrottleBudget | None:
        """The budget after waiting `wait_s`; None when it does not fit."""
        if not 0 <= wait_s <= self.left_s:
            return None
        return replace(self, spent_s=min(self.spent_s + wait_s, self.budget_s))
