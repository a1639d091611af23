"""The clock of the simulated world."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

BEGINNING: Final = datetime(2026, 6, 1, tzinfo=UTC)


class WorldClock:
    """An `eventclient.clock.Clock` that goes by the running loop.

    Args:
        chance: where jitter comes from.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.now())

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)

    def jitter(self, upper_s: float) -> float:
        return self._chance.random() * upper_s
