"""State in a PostgreSQL database, which any number of server processes share.

Changes of one run that wait at the same time share a transaction: one load, one save, one commit. Changes of
different runs go side by side, each on a connection of its own. Connect directly, or through a pooler that
keeps sessions: statements are prepared.

A list may come to show a run, hook or stream at a position before one that it has shown, when both were being
made at the same time. The log of a run never does: its changes come one after the other.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]

from eventclient.devserver.state import LogQuery, LogRow, State, Wanted
from eventclient.devserver.store import (
    CommitLostError,
    Decision,
    HookQuery,
    Listed,
    RunQuery,
    StepQuery,
    StoreUnavailableError,
    StreamPart,
    StreamQuery,
    T,
)
from eventclient.errors import ConfigurationError
from eventclient.model.entities import Hook, Run, Step

from . import postgres_reads as reads
from .groups import GroupCommit, Job, until_done
from .overlay import Load, all_wanted, decide_all
from .postgres_connection import Connection
from .postgres_failures import DRIVER_ERRORS, Meaning, meaning_of
from .postgres_keys import place_of
from .postgres_records import drop_records
from .postgres_schema import SCHEMA, make_tables
from .postgres_session import Session

R = TypeVar("R")
logger = logging.getLogger("eventclient.devserver")

DSN_FORM: Final = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_MALFORMED: Final = f"no DSN like {DSN_FORM}, special characters of the password quoted"
POOL_SIZE: Final = 8
MAX_ATTEMPTS: Final = 5
"""How often a transaction is begun before a failure that is nobody's fault is told."""
CONNECT_TIMEOUT_S: Final = 10.0
COMMAND_TIMEOUT_S: Final = 60.0
_NOBODYS_FAULT: Final = (Meaning.AGAIN, Meaning.HOPELESS)
IDLE_GROUPS: Final = 64
"""How many runs may be remembered that nobody changes any more."""
_SETTINGS: Final = {
    "application_name": "eventclient",
    "search_path": SCHEMA,
    "synchronous_commit": "on",
    # A statement that has waited for a lock then sees what was committed meanwhile.
    "default_transaction_isolation": "read committed",
    # How long another process may hold a run, and how long a process that stands still may hold one.
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
    # Plans are kept, and those made while the tables were empty must do when they are full.
    "enable_seqscan": "off",
}


class PostgresStore:
    """A `Store` in PostgreSQL.

    Args:
        dsn: as `DSN_FORM`; the database must exist, its tables are made when they are missing.
        pool_size: most connections at a time, at least 1: runs that can be changed side by side.
    """

    def __init__(self, dsn: str, *, pool_size: int = POOL_SIZE) -> None:
        self._dsn = dsn
        self._pool_size = pool_size
        self._pool: Any = None
        self._groups: dict[str, GroupCommit] = {}
        self._sweep_at = IDLE_GROUPS

    async def open(self) -> None:
        """Connect, and make the tables where they are missing.

        Raises:
            ConfigurationError: the database cannot be reached or used; never says a password.
        """
        pool = asyncpg.create_pool(
            self._dsn,
            min_size=0,
            max_size=self._pool_size,
            # A connection is not worn out by its statements, and closing it takes time and may fail.
            max_queries=sys.maxsize,
            reset=_keep,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings=_SETTINGS,
        )
        await pool
        try:
            async with lend(pool) as connection:
                await make_tables(connection)
        except BaseException as error:
            pool.terminate()
            if isinstance(error, ValueError):
                # What the driver says about a malformed DSN may quote any part of it.
                raise ConfigurationError(f"cannot use PostgreSQL: {_MALFORMED}") from None
            if isinstance(error, (ConfigurationError, *DRIVER_ERRORS)):
                raise ConfigurationError(f"cannot use {place_of(self._dsn)}: {_words_of(error)}") from error
            raise
        self._pool = pool

    async def aclose(self) -> None:
        """Finish what is under way, then disconnect."""
        for group in list(self._groups.values()):
            await group.aclose()
        self._groups.clear()
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def change(
        self, wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool = True
    ) -> T:
        """See `Store.change`."""
        self._open_pool()
        group = self._groups.get(wanted.run_id)
        if group is None:
            self._drop_idle_groups()
            group = self._groups[wanted.run_id] = GroupCommit(self._commit)
        return await group.change(wanted, decide, durable=durable)

    def _drop_idle_groups(self) -> None:
        if len(self._groups) >= self._sweep_at:
            self._groups = {run_id: group for run_id, group in self._groups.items() if not group.idle}
            self._sweep_at = 2 * len(self._groups) + IDLE_GROUPS

    async def drop_records(self, now_ms: int, limit: int) -> int:
        """See `Store.drop_records`."""
        return await self._read(lambda connection: drop_records(connection, now_ms, limit))

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Rows of a run's log; None when there is no such run."""
        return await self._read(lambda connection: reads.read_log(connection, query))

    async def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        """Runs in the order asked for."""
        return await self._read(lambda connection: reads.read_runs(connection, query))

    async def read_steps(self, query: StepQuery) -> list[Listed[Step]]:
        """Steps of a run in the order asked for."""
        return await self._read(lambda connection: reads.read_steps(connection, query))

    async def read_hooks(self, query: HookQuery) -> list[Listed[Hook]]:
        """Hooks that are there, in the order asked for."""
        return await self._read(lambda connection: reads.read_hooks(connection, query))

    async def write_stream(self, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool) -> bool:
        """See `Store.write_stream`. What a lost connection left undone or done is not tried again."""
        sent = False
        try:
            async with lend(self._open_pool()) as connection:
                # The statement is its own transaction: once it is sent, so is its commit.
                sent = True
                return await reads.write_stream(connection, run_id, name, chunks, close=close)
        except DRIVER_ERRORS as error:
            if meaning_of(error, committing=sent) not in _NOBODYS_FAULT:
                raise
            raise StoreUnavailableError(_words_of(error)) from error

    async def read_stream(self, query: StreamQuery) -> StreamPart:
        """Chunks of a stream; one nobody wrote to is open and has none."""
        return await self._read(lambda connection: reads.read_stream(connection, query))

    async def list_streams(self, run_id: str) -> list[str]:
        """Names of the run's streams, in the order in which they came to be."""
        return await self._read(lambda connection: reads.list_streams(connection, run_id))

    def _open_pool(self) -> Any:
        if self._pool is None:
            raise ConfigurationError("the store is not open")
        return self._pool

    async def _read(self, read: Callable[[Connection], Awaitable[R]]) -> R:
        async def attempt() -> R:
            async with lend(self._open_pool()) as connection:
                return await read(connection)

        return await _try(attempt)

    async def _commit(self, jobs: Sequence[Job]) -> None:
        """Commit what the jobs decide.

        Raises:
            StoreUnavailableError, CommitLostError: none of them can be to blame.
            Exception: nothing was committed, and one of them may be to blame.
        """

        async def attempt() -> None:
            async with lend(self._open_pool()) as connection:
                await _transact(Session(connection), jobs)

        await _try(attempt)


@asynccontextmanager
async def lend(pool: Any) -> AsyncIterator[Connection]:
    """A connection of `pool` for as long as the block lasts.

    What goes wrong when it is given back is nobody's failure: what the block did is done, and who took it
    for undone would do it twice.
    """
    connection = await pool.acquire()
    try:
        yield connection
    finally:
        try:
            await pool.release(connection)
        except DRIVER_ERRORS as error:
            # The pool has thrown the connection away.
            logger.debug("a connection could not be given back: %s", error)


async def _keep(_: object) -> None:
    """Nothing that a session is used for outlives its transaction."""


async def _try(attempt: Callable[[], Awaitable[R]]) -> R:
    """The result of `attempt`, which is made again while what failed was surely not committed and nobody's
    fault; at most `MAX_ATTEMPTS` times.

    Raises:
        StoreUnavailableError: it is nobody's fault, and no more attempts are made.
    """
    attempts_left = MAX_ATTEMPTS
    while True:
        attempts_left -= 1
        try:
            return await attempt()
        except DRIVER_ERRORS as error:
            meaning = meaning_of(error, committing=False)
            if meaning not in _NOBODYS_FAULT:
                raise
            if meaning is Meaning.HOPELESS or not attempts_left:
                raise StoreUnavailableError(_words_of(error)) from error


def _words_of(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _transact(session: Session, jobs: Sequence[Job]) -> None:
    """One transaction for all jobs; a cancelled or failed one leaves nothing behind."""
    wanted = all_wanted(job.wanted for job in jobs)
    try:
        await session.begin(wanted, durable=any(job.durable for job in jobs))
        saved = await _decide(session, wanted, jobs)
    except BaseException:
        await _roll_back(session)
        raise
    if not saved:
        await session.rollback()
        return
    try:
        await session.commit()
    except DRIVER_ERRORS as error:
        if meaning_of(error, committing=True) is Meaning.UNKNOWN:
            raise CommitLostError("the connection was lost while the commit was under way") from error
        raise


async def _decide(session: Session, wanted: Wanted, jobs: Sequence[Job]) -> bool:
    """Let the jobs decide one after the other and save what they did; False when there was nothing to."""
    saved = False
    for step in decide_all(wanted, jobs):
        if isinstance(step, Load):
            step.state = await session.load(step.wanted)
        else:
            await session.save(step)
            saved = True
    return saved


async def _roll_back(session: Session) -> None:
    try:
        await until_done(session.rollback())
    except DRIVER_ERRORS:
        # A connection that cannot even roll back is thrown away by the pool; the database rolls back.
        return
