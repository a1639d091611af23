"""Group commit: changes that wait at the same time share a commit, and no fate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from eventclient.devserver.state import State, Wanted
from eventclient.devserver.store import CommitLostError, Decision, StoreUnavailableError, T

MAX_GROUP: Final = 256
"""Most changes of one commit: what a failed commit costs is bounded by it."""


@dataclass(slots=True, eq=False)
class Job:
    """A change that somebody waits for.

    Attributes:
        durable: it has to be safe before the caller is told.
        answer: what the caller gets once the change is committed.
        error: what it gets instead, when `decide` raised.
    """

    wanted: Wanted
    decide: Callable[[State], Decision[Any]]
    future: asyncio.Future[Any] = field(repr=False)
    durable: bool = True
    answer: Any = None
    error: Exception | None = None

    def look_at(self, state: State) -> Decision[Any] | None:
        """What the caller decides about `state`; None when it raised."""
        self.error = None
        try:
            decision = self.decide(state)
        except Exception as error:  # noqa: BLE001 - it is raised where the change was asked for
            self.error = error
            return None
        self.answer = decision.answer
        return decision

    def settle(self, error: Exception | None = None) -> None:
        """Wake the caller, unless it has gone."""
        error = error or self.error
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self.answer)


async def until_done(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` to its end, however often this is cancelled meanwhile; only then the cancellation is told."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


class GroupCommit:
    """Takes changes and commits those that wait together.

    Args:
        commit: saves the decisions of all jobs in one commit, or raises and leaves nothing behind. What
            it raises may be the fault of one job, unless it says that it is nobody's.
    """

    def __init__(self, commit: Callable[[Sequence[Job]], Awaitable[None]]) -> None:
        self._commit = commit
        self._waiting: list[Job] = []
        self._work: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being committed."""
        return self._work is None

    async def change(self, wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool) -> T:
        """Wait until the change is committed; see `Store.change`."""
        loop = asyncio.get_running_loop()
        job = Job(wanted, decide, loop.create_future(), durable)
        self._waiting.append(job)
        if self._work is None:
            self._work = loop.create_task(self._commit_all())
        answer: T = await job.future
        return answer

    async def aclose(self) -> None:
        """Finish what waits."""
        while self._work is not None:
            await asyncio.wait([self._work])

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                await self._settle(group)
        finally:
            self._work = None
            for job in self._waiting:
                job.future.cancel()
            self._waiting = []

    async def _settle(self, group: Sequence[Job]) -> None:
        try:
            await self._commit(group)
        except (StoreUnavailableError, CommitLostError) as error:
            # One by one they would all meet the same, each after as long a wait.
            for job in group:
                job.settle(error)
        except Exception as error:  # noqa: BLE001 - it is raised where the change was asked for
            if len(group) == 1:
                group[0].settle(error)
                return
            # One of them spoils the commit: each gets its own chance.
            for job in group:
                await self._settle([job])
        except BaseException:
            for job in group:
                job.future.cancel()
            raise
        else:
            for job in group:
                job.settle()
