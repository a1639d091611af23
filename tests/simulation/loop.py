"""A virtual event loop: time jumps, and a seed picks which of the ready callbacks runs next."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

MAX_STEPS: Final = 400_000
"""Callbacks of one seed. A seed takes some thousands; more is a loop that never ends."""


class StuckError(Exception):
    """Something waits for what will never come."""


@dataclass(slots=True, eq=False)
class Place:
    """A process of the simulated world. Once it is dead, none of its callbacks runs any more.

    That is how a crash is: no `finally`, no handler, no goodbye.
    """

    name: str
    is_alive: bool = True
    context: Context = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.context = copy_context()
        self.context.run(_PLACE.set, self)


_PLACE: Final[ContextVar[Place | None]] = ContextVar("place", default=None)


class SimulatedTask(asyncio.Task[Any]):
    """A task whose order in a set does not depend on its address.

    Attributes:
        mark: what its hash is.
        place: where it runs; None outside of any.
    """

    def __init__(self, mark: int, place: Place | None, *args: Any, **kwargs: Any) -> None:
        self.mark = mark
        self.place = place
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.mark


class Listener:
    """Where a simulated server listens: as much of an `asyncio.Server` as it looks at."""

    def __init__(self, accept: Callable[[], asyncio.BaseProtocol]) -> None:
        self.accept = accept
        self.is_open = True
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 80)

    def close(self) -> None:
        self.is_open = False


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on which waiting takes no time.

    Args:
        chance: picks among the ready callbacks.
        max_time_s: virtual seconds after which a seed counts as stuck.

    Attributes:
        listeners: of all servers that were started, the latest last.
        steps: how many callbacks have run.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, chance: Random, *, max_time_s: float = 6 * 3600.0) -> None:
        super().__init__()
        self._now_s = 0.0
        self._chance = chance
        # All tasks of all loops are in one set of asyncio's, and should not all want the same places there.
        self._first_mark = chance.getrandbits(48)
        self._max_time_s = max_time_s
        self._futures: list[asyncio.Future[Any]] = []
        self._tasks: list[SimulatedTask] = []
        self._alarms: list[tuple[int, int, Callable[[], object]]] = []
        self._alarm_numbers = count()
        # What the dead did not get to do; to be buried, their tasks have to be woken.
        self._dropped: list[asyncio.Handle] = []
        self.listeners: list[Listener] = []
        self.steps = 0
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        future = super().create_future()
        self._futures.append(future)
        return future

    def call_after_steps(self, steps: int, callback: Callable[[], object]) -> None:
        """Make `callback` ready when `steps` more callbacks have run: between any two, not at an instant."""
        heapq.heappush(self._alarms, (self.steps + steps, next(self._alarm_numbers), callback))

    async def create_server(self, protocol_factory: Any, *_: Any, **__: Any) -> Any:
        """No socket: whoever wants to connect finds the listener here."""
        self.listeners.append(Listener(protocol_factory))
        return self.listeners[-1]

    def unread_failures(self) -> list[BaseException]:
        """What tasks and futures outside of any place failed with and nobody looked at."""
        some = [*self._futures, *(task for task in self._tasks if task.place is None)]
        # Asking for an exception would count as looking at it, so the mark is asked first.
        return [
            error
            for future in some
            if future.done() and not future.cancelled() and getattr(future, "_log_traceback", False)
            if (error := future.exception()) is not None
        ]

    def unfinished(self) -> list[SimulatedTask]:
        """Tasks outside of any place that are not done."""
        return [task for task in self._tasks if not task.done() and task.place is None]

    def bury(self) -> None:
        """End whatever is left, so that nothing is told of it when it is collected."""
        self._max_time_s = float("inf")
        # Timers of the dead may start something while they are buried.
        while rest := [task for task in self._tasks if not task.done()]:
            for task in rest:
                if task.place is not None:
                    task.place.is_alive = True
                task.cancel()
            self._ready.extend(self._dropped)
            self._dropped.clear()
            self.run_until_complete(_wait_for(rest))
        for future in (*self._futures, *self._tasks):
            if future.done() and not future.cancelled():
                future.exception()
        self.close()
        # aiohttp remembers the latest applications, and with them all that can be reached from here.
        self._futures.clear()
        self._tasks.clear()
        self._alarms.clear()
        self.listeners.clear()

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> SimulatedTask:
        options.pop("eager_start", None)
        context = options.get("context")
        place = _PLACE.get() if context is None else context.get(_PLACE)
        task = SimulatedTask(self._first_mark + len(self._tasks), place, coro, loop=loop, **options)
        self._tasks.append(task)
        return task

    def _write_to_self(self) -> None:
        """Nobody else could wake the loop."""

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not ready and not self._stopping:
            if not scheduled:
                raise StuckError("nothing is ready, no timer is set, and not all is done")
            self._now_s = max(self._now_s, scheduled[0].when())
            if self._now_s > self._max_time_s:
                raise StuckError(f"after {self._max_time_s:g} s not all is done")
        while scheduled and scheduled[0].when() <= self._now_s:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        if not ready:
            return
        self.steps += 1
        while self._alarms and self._alarms[0][0] <= self.steps:
            self.call_soon(heapq.heappop(self._alarms)[2])
        if self.steps > MAX_STEPS:
            raise StuckError(f"after {MAX_STEPS} callbacks not all is done")
        self._run(self._pick())

    def _pick(self) -> asyncio.Handle:
        ready = self._ready
        if len(ready) == 1:
            return ready.popleft()
        index = int(self._chance.random() * len(ready))
        handle = ready[index]
        del ready[index]
        return handle

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        place: Place | None = handle._context.get(_PLACE)  # type: ignore[attr-defined]
        if place is None or place.is_alive:
            handle._run()
        else:
            self._dropped.append(handle)


async def _wait_for(tasks: list[SimulatedTask]) -> None:
    while rest := [task for task in tasks if not task.done()]:
        for task in rest:
            task.cancel()
        await asyncio.wait(rest, timeout=60)
