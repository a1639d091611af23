"""Turns: one call per run at a time, first come first served."""

from __future__ import annotations

import asyncio


class Turns:
    """Keeps calls for one run in order without holding up other runs. Forgets runs nobody waits for."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[str, tuple[asyncio.Lock, int]] = {}

    async def enter(self, run_id: str) -> None:
        """Wait for the turn of `run_id`; `leave` must follow, unless this raises."""
        lock, users = self._queues.get(run_id) or (asyncio.Lock(), 0)
        self._queues[run_id] = (lock, users + 1)
        try:
            await lock.acquire()
        except asyncio.CancelledError:
            self._forget(run_id)
            raise

    def leave(self, run_id: str) -> None:
        """Give the turn to the next."""
        self._queues[run_id][0].release()
        self._forget(run_id)

    def _forget(self, run_id: str) -> None:
        lock, users = self._queues[run_id]
        if users == 1:
            del self._queues[run_id]
        else:
            self._queues[run_id] = (lock, users - 1)
