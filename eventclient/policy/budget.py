"""Seconds that may be spent on one cause of delay."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds that may be spent, and seconds spent. Immutable: spending gives a new one.

    Attributes:
        budget_s: all there is.
        spent_s: what has been spent. Waits never take it above `budget_s`; an attempt that took longer than
            was left does.
    """

    budget_s: float
    spent_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds still to spend, never less than 0."""
        return max(0.0, self.budget_s - self.spent_s)

    def wait_for(self, asked_s: float, jitter_s: float) -> float | None:
        """Seconds to wait when `asked_s` are asked for; None when that does not fit any more.

        Never shorter than asked. The jitter on top is cut to what the budget leaves.
        """
        if not 0 <= asked_s <= self.left_s:
            return None
        return min(asked_s + max(0.0, jitter_s), self.left_s)

    def spend(self, wait_s: float) -> Budget | None:
        """The budget after waiting `wait_s`; None when it does not fit."""
        if not 0 <= wait_s <= self.left_s:
            return None
        return replace(self, spent_s=min(self.spent_s + wait_s, max(self.budget_s, self.spent_s)))

    def charge(self, elapsed_s: float) -> Budget:
        """The budget after `elapsed_s` that have passed already, whether they fit or not."""
        return replace(self, spent_s=self.spent_s + elapsed_s) if elapsed_s > 0 else self
