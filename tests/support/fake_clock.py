"""A clock that jumps instead of waiting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class FakeClock:
    """An `eventclient.clock.Clock` on which a sleep takes no time and is written down.

    Give it as ``ClientOptions(clock=FakeClock())``. What the client waited for is in `sleeps`.
    """

    def __init__(
        self,
        *,
        start: datetime = datetime(2026, 1, 1, tzinfo=UTC),
        jitter: float = 0.0,
    ) -> None:
        """
        Args:
            start: what `wall` says first.
            jitter: which share of its upper limit every jitter is, 0..1. The default takes it away, so
                that waits are exact.
        """
        self.sleeps: list[float] = []
        """Seconds of each sleep, in order."""
        self._start = start
        self._elapsed_s = 0.0
        self._jitter = jitter

    def now(self) -> float:
        # Not zero: monotonic clocks start anywhere, and only differences mean something.
        return 1_000.0 + self._elapsed_s

    def wall(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        # Other tasks get a turn, and a cancellation arrives here, as in a real sleep.
        await asyncio.sleep(0)
        self.advance(delay_s)

    def jitter(self, upper_s: float) -> float:
        return upper_s * self._jitter

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_s += seconds
