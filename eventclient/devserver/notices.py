"""Wakes those who wait for a run or a stream to change, within this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

POLL_S: Final = 0.25
"""How long a change that another process made may stay unseen: no notice tells of it."""


class Listener:
    """Hears what is told about its subject while it listens."""

    def __init__(self) -> None:
        self._heard = asyncio.Event()

    def hear(self) -> None:
        self._heard.set()

    async def wait(self, timeout_s: float = POLL_S) -> None:
        """Wait until something was told since the last wait, or `timeout_s` seconds, or `POLL_S`,
        whatever is shortest."""
        try:
            async with asyncio.timeout(min(timeout_s, POLL_S)):
                await self._heard.wait()
        except TimeoutError:
            return
        self._heard.clear()


class Notices:
    """Listeners by subject."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}

    def tell(self, subject: str) -> None:
        """Something about `subject` has changed, and is committed."""
        for listener in self._listeners.get(subject, ()):
            listener.hear()

    @contextmanager
    def listen(self, subject: str) -> Iterator[Listener]:
        """A listener for as long as the block lasts. Look at the state inside the block, before waiting:
        what is told between the look and the wait is heard."""
        listener = Listener()
        self._listeners.setdefault(subject, set()).add(listener)
        try:
            yield listener
        finally:
            listeners = self._listeners[subject]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[subject]
