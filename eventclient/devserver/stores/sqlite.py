"""State in an SQLite database: in memory, or in a file where a commit is on disk before it is answered.

Statements run on the event loop: they meet the page cache. Commits that wait for the disk run in a worker
thread; whatever arrives meanwhile shares the next one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from eventclient.devserver.state import LogQuery, LogRow, State, Wanted
from eventclient.devserver.store import (
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

from .groups import GroupCommit, Job, until_done
from .overlay import Load, all_wanted, decide_all
from .sqlite_database import MEMORY, PATIENCE_MS, Database
from .sqlite_failures import blameless


@dataclass(frozen=True, slots=True)
class _Opened:
    """What an open store has.

    Attributes:
        writer: the connection that changes things.
        reader: sees what is committed; in memory there is but one connection, and no transaction of
            it is ever open while something else runs.
        worker: waits for the disk; None in memory.
    """

    writer: Database
    reader: Database
    worker: ThreadPoolExecutor | None

    async def wait(self, function: Callable[[], None]) -> None:
        if self.worker is None:
            function()
        else:
            await asyncio.get_running_loop().run_in_executor(self.worker, function)


class SqliteStore:
    """A `Store` in SQLite.

    Args:
        path: a file, made when missing; ``":memory:"`` keeps everything in memory until closed.
    """

    def __init__(self, path: str = MEMORY) -> None:
        self._path = path
        self._opened: _Opened | None = None
        self._groups = GroupCommit(self._commit)
        self._turn = asyncio.Lock()
        self._lockouts = 0

    async def open(self) -> None:
        """Open the database.

        Raises:
            ConfigurationError: the file cannot be opened, or is no database of this version.
        """
        try:
            writer = Database(self._path)
            if self._path == MEMORY:
                self._opened = _Opened(writer, writer, None)
                return
            try:
                reader = Database(self._path, create=False)
            except BaseException:
                writer.close()
                raise
        except (sqlite3.Error, ConfigurationError) as error:
            raise ConfigurationError(f"cannot use the database {self._path}: {error}") from error
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="eventclient-sqlite")
        self._opened = _Opened(writer, reader, worker)

    async def aclose(self) -> None:
        """Finish what is under way, then close the database."""
        await self._groups.aclose()
        async with self._turn:
            opened, self._opened = self._opened, None
            if opened is None:
                return
            if opened.worker is not None:
                opened.worker.shutdown()
                opened.reader.close()
            opened.writer.close()

    async def change(
        self, wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool = True
    ) -> T:
        """See `Store.change`."""
        self._open()
        return await self._groups.change(wanted, decide, durable=durable)

    async def drop_records(self, now_ms: int, limit: int) -> int:
        """See `Store.drop_records`."""
        dropped = 0

        def drop(database: Database) -> None:
            nonlocal dropped
            dropped = database.drop_records(now_ms, limit)

        await self._transact(self._open(), drop)
        return dropped

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Rows of a run's log; None when there is no such run."""
        with blameless():
            return self._open().reader.read_log(query)

    async def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        """Runs in the order asked for."""
        with blameless():
            return self._open().reader.read_runs(query)

    async def read_steps(self, query: StepQuery) -> list[Listed[Step]]:
        """Steps of a run in the order asked for."""
        with blameless():
            return self._open().reader.read_steps(query)

    async def read_hooks(self, query: HookQuery) -> list[Listed[Hook]]:
        """Hooks that are there, in the order asked for."""
        with blameless():
            return self._open().reader.read_hooks(query)

    async def write_stream(self, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool) -> bool:
        """See `Store.write_stream`."""
        written = False

        def write(database: Database) -> None:
            nonlocal written
            written = database.write_stream(run_id, name, chunks, close=close)

        await self._transact(self._open(), write)
        return written

    async def read_stream(self, query: StreamQuery) -> StreamPart:
        """Chunks of a stream; one nobody wrote to is open and has none."""
        with blameless():
            return self._open().reader.read_stream(query)

    async def list_streams(self, run_id: str) -> list[str]:
        """Names of the run's streams, in the order in which they came to be."""
        with blameless():
            return self._open().reader.list_streams(run_id)

    def _open(self) -> _Opened:
        if self._opened is None:
            raise ConfigurationError("the store is not open")
        return self._opened

    async def _commit(self, jobs: Sequence[Job]) -> None:
        by_run: dict[str, list[Job]] = {}
        for job in jobs:
            by_run.setdefault(job.wanted.run_id, []).append(job)

        def save(database: Database) -> None:
            for several in by_run.values():
                _save(database, several)

        await self._transact(self._open(), save, durable=any(job.durable for job in jobs))

    async def _transact(
        self, opened: _Opened, write: Callable[[Database], None], *, durable: bool = True
    ) -> None:
        """Commit what `write` does, or leave nothing behind. Not to be cancelled half way."""
        lockouts = self._lockouts
        async with self._turn:
            if self._lockouts > lockouts:
                # Whoever came while another process was waited for has waited for it, too.
                raise StoreUnavailableError(f"another process is writing to {self._path}")
            await until_done(self._transact_alone(opened, write, durable))

    async def _transact_alone(
        self, opened: _Opened, write: Callable[[Database], None], durable: bool
    ) -> None:
        writer = opened.writer
        with blameless():
            writer.wait_for_disk(durable)
            await self._begin(opened)
            try:
                write(writer)
                if durable:
                    await opened.wait(writer.commit)
                else:
                    writer.commit()
            except BaseException:
                writer.rollback()
                raise

    async def _begin(self, opened: _Opened) -> None:
        try:
            opened.writer.begin()
        except sqlite3.OperationalError:
            # Another process writes. Its turn may last, so this is no waiting for the event loop.
            try:
                await opened.wait(lambda: _begin_patiently(opened.writer))
            except sqlite3.OperationalError:
                self._lockouts += 1
                raise


def _save(database: Database, jobs: Sequence[Job]) -> None:
    """Save what jobs about one run decide, one after the other."""
    for step in decide_all(all_wanted(job.wanted for job in jobs), jobs):
        if isinstance(step, Load):
            step.state = database.load(step.wanted)
        else:
            database.save(step)


def _begin_patiently(database: Database) -> None:
    database.wait_for_lock(PATIENCE_MS)
    try:
        database.begin()
    finally:
        database.wait_for_lock(0)
