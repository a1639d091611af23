"""The one place that reads the clock and the one place that sleeps."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the client sees it. Tests give one that jumps."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean something."""

    def wall(self) -> datetime:
        """The current instant, aware, UTC."""

    async def sleep(self, delay_s: float) -> None:
        """Wait `delay_s` seconds; cancellation ends the wait at once."""

    def jitter(self, upper_s: float) -> float:
        """A random number of seconds in [0, `upper_s`]."""


class SystemClock:
    """The operating system's clock."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)

    def jitter(self, upper_s: float) -> float:
        return random.uniform(0.0, upper_s)
