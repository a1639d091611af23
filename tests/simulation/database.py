"""The database all servers of a world share: it is slow, it fails, and no server's death touches it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from random import Random

from eventclient.devserver.state import LogQuery, LogRow, State, Wanted
from eventclient.devserver.store import CommitLostError, Decision, StoreUnavailableError, T
from eventclient.devserver.stores.groups import GroupCommit
from eventclient.devserver.stores.sqlite import SqliteStore

from .loop import Place
from .plan import Kind, Plan
from .trace import Trace


class Database(SqliteStore):
    """The real store in memory, behind a connection that delays and breaks.

    Attributes:
        is_kind: nothing is delayed and nothing fails.
    """

    def __init__(self, plan: Plan, chance: Random, trace: Trace) -> None:
        super().__init__()
        self._plan = plan
        self._chance = chance
        self._trace = trace
        self._place = Place("database")
        self._safe = b""
        self._forgets = plan.kind is Kind.FORGETFUL
        self.is_kind = True

    async def open(self) -> None:
        """A server opens it, which it may do again after each crash."""
        if self._opened is None:
            await super().open()
            self._safe = self._connection().serialize()

    async def aclose(self) -> None:
        """A server is done with it; others are not."""

    async def shut(self) -> None:
        """Nobody needs it any more."""
        await super().aclose()

    async def change(
        self, wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool = True
    ) -> T:
        """See `Store.change`. Once it has begun it goes on, whatever becomes of who asked for it."""
        plan, chance = self._plan, self._chance
        if self.is_kind:
            return await self._change(wanted, decide, durable)
        await self._travel()
        if chance.random() < plan.unavailable:
            self._trace.note("database", "unavailable")
            raise StoreUnavailableError("simulated")
        if chance.random() < plan.commit_lost / 2:
            self._trace.note("database", "commit lost, not done")
            raise CommitLostError("simulated")
        work = asyncio.get_running_loop().create_task(
            self._change(wanted, decide, durable), context=self._place.context.copy()
        )
        work.add_done_callback(_look)
        answer = await asyncio.shield(work)
        await self._travel()
        if chance.random() < plan.commit_lost / 2:
            self._trace.note("database", "commit lost, done")
            raise CommitLostError("simulated")
        return answer

    async def _change(self, wanted: Wanted, decide: Callable[[State], Decision[T]], durable: bool) -> T:
        answer = await super().change(wanted, decide, durable=durable)
        if self._plan.power_fails and durable and not self._forgets:
            self._safe = self._connection().serialize()
        return answer

    def lose_power(self) -> None:
        """Fall back to what was safe. Whoever was connected has to be dead."""
        self._trace.note("database", "loses its power")
        self._place.is_alive = False
        self._place = Place("database")
        self._groups = GroupCommit(self._commit)
        self._turn = asyncio.Lock()
        self._connection().deserialize(self._safe)

    def _connection(self) -> sqlite3.Connection:
        return self._open().writer._connection

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """See `Store.read_log`."""
        if not self.is_kind:
            await self._travel()
        return await super().read_log(query)

    async def _travel(self) -> None:
        chance = self._chance
        if chance.random() < self._plan.slow:
            await asyncio.sleep(chance.random() * (1.5 if self._plan.is_gentle else 8.0))
        elif chance.random() < 0.5:
            await asyncio.sleep(chance.random() * 0.01)


def _look(work: asyncio.Task[T]) -> None:
    # Whoever asked may be gone.
    if not work.cancelled():
        work.exception()
