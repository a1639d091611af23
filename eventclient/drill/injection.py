"""A transport that carries requests for real, and then loses, repeats or forges them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from eventclient.client.transport import Answer, Loss, Request, Transport
from eventclient.clock import Clock
from eventclient.wire import spec

from .course import CURRENT, Course, code_of, is_final
from .faults import Way
from .kinds import FORGED, GENUINE

PATIENCE_S: Final = 0.05
"""How long a client that gives up waits for an answer, once the server is at work."""

MOST_ROUNDS: Final = 30
ROUND_S: Final = 1.0
"""Another payload is sent again this often, and after as long, until its answer is final."""

Reply = Answer | Loss


class FaultTransport:
    """Befalls the requests of operations with the faults they are to meet.

    Args:
        inner: carries the requests; closed along with this one.
        clock: waits.
        own: the server tells of its claims, so that what hangs on them can wait for them.
    """

    def __init__(self, inner: Transport, clock: Clock, *, own: bool) -> None:
        self._inner = inner
        self._clock = clock
        self._own = own
        self._left_behind: set[asyncio.Task[Reply]] = set()

    async def send(self, request: Request) -> Reply:
        course = CURRENT.get()
        if course is None or request.method != "POST":
            return await self._inner.send(request)
        way = course.operation.way
        befall = _WAYS.get(way) if way is not None else None
        if befall is None:
            return await self._deliver(course, request)
        return await befall(self, course, request)

    async def aclose(self) -> None:
        """Wait for the answers nobody waits for, and close."""
        if self._left_behind:
            await asyncio.wait(self._left_behind)
        await self._inner.aclose()

    async def _deliver(self, course: Course, request: Request) -> Reply:
        number = course.sent()
        reply = await self._inner.send(request)
        course.met(number, reply, request.headers.get(spec.HEADER_KEY))
        return reply

    # -- ways ----------------------------------------------------------------------------------

    async def _lose_answers(self, course: Course, request: Request) -> Reply:
        reply = await self._deliver(course, request)
        wanted = 2 if course.operation.way is Way.LOST_TWICE else 1
        if course.losses == wanted or not is_final(reply):
            return reply
        course.losses += 1
        course.is_injected = course.losses == wanted
        return _lose(course, "the answer is lost")

    async def _deliver_in_turn(self, course: Course, request: Request) -> Reply:
        reply = await self._deliver(course, request)
        if course.is_injected or not is_final(reply):
            return reply
        course.is_injected = True
        again = await self._deliver(course, request)
        # The client gets to see the second answer; the first was somebody else's.
        return again if isinstance(again, Answer) else reply

    async def _deliver_at_once(self, course: Course, request: Request) -> Reply:
        if course.is_injected:
            return await self._deliver(course, request)
        course.is_injected = True
        reply, _ = await asyncio.gather(self._deliver(course, request), self._deliver(course, request))
        return reply

    async def _forge(self, course: Course, request: Request) -> Reply:
        reply = await self._deliver(course, request)
        if course.is_injected or not is_final(reply):
            return reply
        forged = replace(request, body=(request.body or b"").replace(GENUINE, FORGED))
        course.tell("the same key is sent with another payload")
        met = await self._insist(course, forged)
        if isinstance(met, Answer):
            course.is_injected = True
            code = code_of(met)
            course.tell(f"the other payload: {met.status}" + (f" {code}" if code else ""))
            if (met.status, code) != (422, spec.CODE_KEY_REUSE):
                course.complaints.append(f"another payload under the key was answered {met.status}")
        return reply

    async def _insist(self, course: Course, request: Request) -> Reply:
        """What a request meets in the end: a server that is busy may say first that it is still at it."""
        for _ in range(MOST_ROUNDS):
            course.deliveries += 1
            reply = await self._inner.send(request)
            if is_final(reply):
                break
            await self._clock.sleep(ROUND_S)
        return reply

    async def _leave_zombie(self, course: Course, request: Request) -> Reply:
        if course.losses:
            return await self._deliver(course, request)
        work = asyncio.ensure_future(self._deliver(course, request))
        await _first(course.claimed, work)
        self._leave(work)
        return _lose(course, "the client hears nothing of it", count=True)

    async def _give_up(self, course: Course, request: Request) -> Reply:
        if course.losses:
            return await self._deliver(course, request)
        work = asyncio.ensure_future(self._deliver(course, request))
        if self._own:
            await _first(course.claimed, work)
            await asyncio.wait({work}, timeout=PATIENCE_S)
            work.cancel()
            await asyncio.wait({work})
        else:
            # It has to be on its way before the client sends it again.
            await asyncio.wait({work}, timeout=PATIENCE_S / 10)
            self._leave(work)
            course.is_injected = True
        return _lose(course, "the client waits no longer", count=True)

    def _leave(self, work: asyncio.Task[Reply]) -> None:
        self._left_behind.add(work)
        work.add_done_callback(self._left_behind.discard)


async def _first(event: asyncio.Event, work: asyncio.Task[Reply]) -> None:
    """Wait for whichever comes first: a server that makes no claims does the work and sets nothing."""
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiter, work}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


def _lose(course: Course, step: str, *, count: bool = False) -> Loss:
    course.losses += count
    course.tell(step)
    return Loss(sent=True, cause=f"drill: {step}")


_WAYS: Final[Mapping[Way, Callable[[FaultTransport, Course, Request], Awaitable[Reply]]]] = MappingProxyType(
    {
        Way.LOST_ONCE: FaultTransport._lose_answers,
        Way.LOST_TWICE: FaultTransport._lose_answers,
        Way.IN_TURN: FaultTransport._deliver_in_turn,
        Way.AT_ONCE: FaultTransport._deliver_at_once,
        Way.LATE_ZOMBIE: FaultTransport._leave_zombie,
        Way.RACING_ZOMBIE: FaultTransport._leave_zombie,
        Way.OTHER_PAYLOAD: FaultTransport._forge,
        Way.GIVES_UP: FaultTransport._give_up,
    }
)
"""By way. The others happen in the server alone."""
