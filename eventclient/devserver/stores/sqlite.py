"""State in an SQLite database: in memory, or in a file where a commit is on disk before it is answered.

One worker thread owns the connection, so the event loop never waits for the disk. Transactions take
turns: SQLite has one writer, and slots are drawn under its lock.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec, TypeVar

from eventclient.devserver.state import Changes, Claim, Holder, LogQuery, LogRow, State, Wanted
from eventclient.errors import ConfigurationError
from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.model.ids import slot_of
from eventclient.wire.codec import decode, epoch_ms
from eventclient.wire.replies import encode_entity, encode_event_meta, entity_map

_P = ParamSpec("_P")
_T = TypeVar("_T")

MEMORY: Final = ":memory:"
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, last_slot INTEGER NOT NULL, doc BLOB NOT NULL)",
    """CREATE TABLE events (
        run_id TEXT NOT NULL, slot INTEGER NOT NULL, correlation_id TEXT, meta BLOB NOT NULL,
        payload BLOB NOT NULL, PRIMARY KEY (run_id, slot))""",
    """CREATE TABLE steps (
        run_id TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (run_id, id))""",
    """CREATE TABLE waits (
        run_id TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (run_id, id))""",
    """CREATE TABLE hooks (
        run_id TEXT NOT NULL, id TEXT NOT NULL, token TEXT NOT NULL UNIQUE, retained_until_ms INTEGER,
        doc BLOB NOT NULL, PRIMARY KEY (run_id, id))""",
    """CREATE TABLE claims (
        run_id TEXT NOT NULL, key TEXT NOT NULL, slot INTEGER NOT NULL, detail TEXT NOT NULL,
        PRIMARY KEY (run_id, key))""",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)

_LOG: Final = {
    False: """SELECT slot, meta, payload FROM events
        WHERE run_id = ? AND slot > ? AND slot < ? AND (? IS NULL OR correlation_id = ?)
        ORDER BY slot LIMIT ?""",
    True: """SELECT slot, meta, payload FROM events
        WHERE run_id = ? AND slot > ? AND slot < ? AND (? IS NULL OR correlation_id = ?)
        ORDER BY slot DESC LIMIT ?""",
}
_MAX_SLOT: Final = 2**53


class SqliteStore:
    """A `Store` in SQLite.

    Args:
        path: a file, made when missing; ``":memory:"`` keeps everything in memory until closed.
    """

    def __init__(self, path: str = MEMORY) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self._worker: ThreadPoolExecutor | None = None
        self._database: _Database | None = None

    async def open(self) -> None:
        """Open the database.

        Raises:
            ConfigurationError: the file cannot be opened, or is no database of this version.
        """
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="eventclient-sqlite")
        try:
            self._database = await self._call(_Database, self._path)
        except (sqlite3.Error, ConfigurationError) as error:
            self._worker.shutdown()
            raise ConfigurationError(f"cannot use the database {self._path}: {error}") from error

    async def aclose(self) -> None:
        """Wait for what is under way, then close the database."""
        if self._worker is None:
            return
        async with self._turn:
            if self._database is not None:
                await self._call(self._database.close)
                self._database = None
        self._worker.shutdown()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteTransaction]:
        """A transaction; others wait for their turn."""
        async with self._turn:
            database = self._opened()
            try:
                yield SqliteTransaction(self, database)
                await self._call(database.commit)
            except BaseException:
                # The worker takes its calls in order: the rollback comes after whatever a cancelled
                # call left running, and before the next transaction.
                await asyncio.shield(self._call(database.rollback))
                raise

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Committed rows of a run's log; None when there is no such run."""
        async with self._turn:
            return await self._call(self._opened().read_log, query)

    def _opened(self) -> _Database:
        if self._database is None:
            raise ConfigurationError("the store is not open")
        return self._database

    def _call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
        if kwargs:
            raise TypeError("calls to the worker take positional arguments")
        return asyncio.get_running_loop().run_in_executor(self._worker, function, *args)


class SqliteTransaction:
    """A `Transaction` in SQLite."""

    __slots__ = ("_database", "_store")

    def __init__(self, store: SqliteStore, database: _Database) -> None:
        self._store = store
        self._database = database

    async def load(self, wanted: Wanted) -> State:
        return await self._store._call(self._database.load, wanted)

    async def save(self, changes: Changes) -> None:
        await self._store._call(self._database.save, changes)


class _Database:
    """The connection. Lives in the worker thread."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, cached_statements=64)
        try:
            self._prepare(durable=path != MEMORY)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, *, durable: bool) -> None:
        if durable:
            self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            self._connection.execute("PRAGMA synchronous = FULL")
        # Another process may be opening the same new file.
        self.begin()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and self._one("SELECT 1 FROM sqlite_master") is None:
            for statement in _SCHEMA:
                self._connection.execute(statement)
        elif version != _SCHEMA_VERSION:
            raise ConfigurationError(f"its schema has version {version}, not {_SCHEMA_VERSION}")
        self.commit()

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        # IMMEDIATE takes the write lock at once, so what is loaded cannot change before it is saved.
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    # -- read ----------------------------------------------------------------------------------

    def load(self, wanted: Wanted) -> State:
        self.begin()
        run_id = wanted.run_id
        row = self._one("SELECT last_slot, doc FROM runs WHERE run_id = ?", run_id)
        steps = self._documents("SELECT doc FROM steps WHERE run_id = ? AND id = ?", run_id, wanted.steps)
        waits = self._documents("SELECT doc FROM waits WHERE run_id = ? AND id = ?", run_id, wanted.waits)
        hooks = self._documents("SELECT doc FROM hooks WHERE run_id = ? AND id = ?", run_id, wanted.hooks)
        claims = {
            key: Claim(*claim)
            for key in wanted.claims
            if (
                claim := self._one(
                    "SELECT slot, detail FROM claims WHERE run_id = ? AND key = ?", run_id, key
                )
            )
        }
        return State(
            run=Run.read(decode(row[1])) if row is not None else None,
            last_slot=row[0] if row is not None else 0,
            steps={name: Step.read(decode(doc)) for name, doc in steps.items()},
            waits={name: Wait.read(decode(doc)) for name, doc in waits.items()},
            hooks={name: Hook.read(decode(doc)) for name, doc in hooks.items()},
            holders={token: holder for token in wanted.tokens if (holder := self._holder(token)) is not None},
            claims=claims,
        )

    def read_log(self, query: LogQuery) -> list[LogRow] | None:
        if self._one("SELECT 1 FROM runs WHERE run_id = ?", query.run_id) is None:
            return None
        after, before = query.after or 0, query.before or _MAX_SLOT
        if query.descending:
            after, before = 0, query.after or _MAX_SLOT
        correlation_id = query.correlation_id
        limit = -1 if query.limit is None else query.limit
        arguments = (query.run_id, after, before, correlation_id, correlation_id, limit)
        return [LogRow(*row) for row in self._connection.execute(_LOG[query.descending], arguments)]

    def _one(self, statement: str, *arguments: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statement, arguments).fetchone()
        return row

    def _documents(self, statement: str, run_id: str, names: frozenset[str]) -> dict[str, bytes]:
        rows = {name: self._one(statement, run_id, name) for name in names}
        return {name: row[0] for name, row in rows.items() if row is not None}

    def _holder(self, token: str) -> Holder | None:
        row = self._one(
            "SELECT hooks.doc, runs.doc FROM hooks LEFT JOIN runs USING (run_id) WHERE token = ?", token
        )
        if row is None:
            return None
        run = Run.read(decode(row[1])) if row[1] is not None else None
        return Holder(Hook.read(decode(row[0])), run)

    # -- write ---------------------------------------------------------------------------------

    def save(self, changes: Changes) -> None:
        self.begin()
        run_id = changes.run.run_id
        write = self._connection.executemany
        write(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)",
            [(run_id, changes.last_slot, encode_entity(entity_map(changes.run)))],
        )
        if changes.ended_at is not None:
            ended_at_ms = epoch_ms(changes.ended_at)
            write("DELETE FROM waits WHERE run_id = ?", [(run_id,)])
            write(
                "DELETE FROM hooks WHERE run_id = ?1 AND coalesce(retained_until_ms, ?2) <= ?2",
                [(run_id, ended_at_ms)],
            )
        write("DELETE FROM hooks WHERE run_id = ? AND id = ?", changes.gone_hooks)
        for statement, entities in (
            ("INSERT OR REPLACE INTO steps VALUES (?, ?, ?)", changes.steps),
            ("INSERT OR REPLACE INTO waits VALUES (?, ?, ?)", changes.waits),
        ):
            write(
                statement,
                [(run_id, name, encode_entity(entity_map(entity))) for name, entity in entities.items()],
            )
        write(
            "INSERT INTO hooks VALUES (?, ?, ?, ?, ?)", [_hook_row(hook) for hook in changes.hooks.values()]
        )
        claims = [(run_id, key, claim.slot, claim.detail) for key, claim in changes.claims.items()]
        write("INSERT INTO claims VALUES (?, ?, ?, ?)", claims)
        rows = [
            (
                run_id,
                slot_of(event.event_id),
                event.correlation_id,
                encode_event_meta(event),
                event.payload or b"",
            )
            for event in changes.events
        ]
        write("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)


def _hook_row(hook: Hook) -> tuple[str, str, str, int | None, bytes]:
    until = hook.token_retention_until
    until_ms = epoch_ms(until) if until is not None else None
    return hook.run_id, hook.hook_id, hook.token, until_ms, encode_entity(entity_map(hook))
