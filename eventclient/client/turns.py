"""Turns: one call per run at a time, first come first served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Queue:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Turns:
    """Keeps calls for one run in order without holding up other runs. Forgets runs nobody waits for."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def take(self, run_id: str) -> AsyncIterator[None]:
        """Wait for the turn of `run_id` and hold it."""
        queue = self._queues.setdefault(run_id, _Queue())
        queue.users += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[run_id]
