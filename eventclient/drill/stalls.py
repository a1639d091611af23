"""What happens in the drill's own server between a claim and its commit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from eventclient.clock import Clock
from eventclient.devserver.hidden import HolderLostError
from eventclient.devserver.idempotency import KeyOptions

from .course import Course, Courses
from .faults import ZOMBIES, Way

KEYS: Final = KeyOptions(deadline_s=1.0, lease_s=0.8)
"""Of the drill's own server. Who is told that a claim is held comes back after a second, the least the header
can say, and finds the lease passed. The deadline is longer than what is not held up takes under load."""

SLOW_S: Final = 0.3
"""Longer than a client waits that gives up, shorter than the deadline."""
BEYOND_DEADLINE_S: Final = 1.15
LONGEST_STALL_S: Final = 30.0
"""Should nobody ever come to reclaim, a stalled holder goes on after this."""


class Stalls:
    """Holds up, or loses, the holders of claims as their operations have it."""

    def __init__(self, courses: Courses, clock: Clock) -> None:
        self._courses = courses
        self._clock = clock

    async def between(self, run_id: str, key: str, token: int) -> None:
        """Called by the server when the claim `token` is committed and its events are not.

        Raises:
            HolderLostError: the holder is to be gone.
        """
        course = self._courses.find(run_id, key)
        if course is None:
            return
        course.tokens.append(token)
        course.tell(f"the key is claimed under token {token}")
        course.claimed.set()
        way = course.operation.way
        if len(course.tokens) > 1:
            if way is Way.RACING_ZOMBIE:
                course.wake.set()
        elif way is Way.HOLDER_LOST:
            course.is_injected = True
            course.tell(f"the holder of {token} is lost")
            raise HolderLostError
        elif way in ZOMBIES:
            await self._outlive(course, token)
        elif way is Way.GIVES_UP:
            await self._slow_down(course, token, SLOW_S)
        elif way is Way.DEADLINE_PASSES:
            await self._slow_down(course, token, BEYOND_DEADLINE_S)

    async def _outlive(self, course: Course, token: int) -> None:
        course.tell(f"the holder of {token} stalls beyond its lease")
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_STALL_S):
                await course.wake.wait()
        # Without a successor it is no zombie: it was merely slow.
        course.is_injected = len(course.tokens) > 1
        course.tell(f"the holder of {token} goes on to its commit")

    async def _slow_down(self, course: Course, token: int, delay_s: float) -> None:
        course.tell(f"the holder of {token} takes {delay_s:g} s")
        await self._clock.sleep(delay_s)
        course.is_injected = True
        course.tell(f"the holder of {token} goes on to its commit")
