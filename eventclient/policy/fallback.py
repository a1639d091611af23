"""What a refusal of the batch route means, and the memory of it."""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum
from typing import Final


class Fallback(StrEnum):
    """What follows a definitive answer of the batch route."""

    NONE = "none"
    """The refusal stands."""
    ONCE = "once"
    """Send these events as single posts; try the batch route again next time."""
    LATCH = "latch"
    """Send these events as single posts, and remember to do so for this run."""


def fallback_for(status: int, code: str | None, *, latching_code: str) -> Fallback:
    """What a refusal with this `status` and `code` means. Only for answers that were received whole.

    404 and 405: no batch route. 400 with `latching_code`: the run cannot be batched. Any other 400 may be
    one event's own fault, so it is not remembered.
    """
    if status in (404, 405):
        return Fallback.LATCH
    if status == 400:
        return Fallback.LATCH if code == latching_code else Fallback.ONCE
    return Fallback.NONE


class FallbackLatch:
    """The runs whose batches go as single posts: bounded, and each entry expires.

    One latch belongs to one server.
    """

    MAX_RUNS: Final = 1024
    LIFETIME_S: Final = 600.0

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def set(self, run_id: str, now: float) -> None:
        """Remember `run_id`. `now` is monotonic seconds."""
        self._until[run_id] = now + self.LIFETIME_S
        self._until.move_to_end(run_id)
        while len(self._until) > self.MAX_RUNS:
            self._until.popitem(last=False)

    def holds(self, run_id: str, now: float) -> bool:
        """Whether `run_id` is remembered and the memory has not expired at `now`."""
        until = self._until.get(run_id)
        if until is None:
            return False
        if now >= until:
            del self._until[run_id]
            return False
        return True
