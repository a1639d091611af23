"""What the SQLite stores promise beside what every store does."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventclient.devserver.state import Changes, LogQuery
from eventclient.devserver.store import StoreUnavailableError, StreamPart, StreamQuery
from eventclient.devserver.stores import STORES, sqlite
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.devserver.stores.sqlite_database import Database
from eventclient.errors import ConfigurationError
from tests.devserver.api import RUN
from tests.devserver.saved import EVERYTHING, load, row, run, save
from tests.devserver.test_store_races import write_one


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "runs.db"))
    await store.open()
    yield store
    await store.aclose()


def test_every_kind_of_store_is_in_the_table() -> None:
    assert set(STORES) == {"sqlite", "postgresql"}


async def test_a_file_keeps_what_was_committed(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    for number in range(2):
        store = SqliteStore(path)
        await store.open()
        if number == 0:
            await save(store, EVERYTHING)
        else:
            assert (await load(store, steps="s")).steps == EVERYTHING.steps
        await store.aclose()


async def test_a_file_is_synced_at_every_commit(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "runs.db"))
    await store.open()
    await save(store, EVERYTHING)
    writer = store._open().writer
    rows = [writer.one(statement) for statement in ("PRAGMA journal_mode", "PRAGMA synchronous")]
    await store.aclose()
    assert rows == [("wal",), (2,)]


async def test_two_processes_can_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open()
    await second.open()
    await save(first, EVERYTHING)
    assert (await load(second)).last_slot == 3
    await first.aclose()
    await second.aclose()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"no database, but long enough to be looked at as one" * 40)
    with pytest.raises(ConfigurationError, match="not a database"):
        await SqliteStore(str(path)).open()


@pytest.mark.parametrize(
    ("statement", "version"), [("PRAGMA user_version = 99", "99"), ("CREATE TABLE mine (x)", "0")]
)
async def test_a_database_of_someone_else_is_refused(tmp_path: Path, statement: str, version: str) -> None:
    path = tmp_path / "runs.db"
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.close()
    with pytest.raises(ConfigurationError, match=f"version {version},"):
        await SqliteStore(str(path)).open()


async def test_a_place_that_allows_no_write_ahead_log_is_refused() -> None:
    # No name is a database of each connection's own, which SQLite forgets.
    with pytest.raises(ConfigurationError, match="no write-ahead log"):
        await SqliteStore("").open()


# -- a purge between two statements ------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 0, 2])
async def test_a_stream_is_read_as_it_was_at_one_moment(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """Another process purges the run right behind the first statement of the read."""
    await save(store, EVERYTHING)
    await store.write_stream(RUN, "s", [b"a", b"b", b"c"], close=False)
    beside = SqliteStore(str(tmp_path / "runs.db"))
    await beside.open()
    reader = store._open().reader
    behind = Interrupted(reader._connection, partial(purge, beside._open().writer))
    monkeypatch.setattr(reader, "_connection", behind)
    part = await store.read_stream(StreamQuery(run_id=RUN, name="s", limit=limit))
    assert behind.interrupted
    assert part == StreamPart(0, (b"a", b"b", b"c")[:limit], 3, closed=False)
    after = await store.read_stream(StreamQuery(run_id=RUN, name="s", limit=limit))
    assert after == StreamPart(0, (), 0, closed=True)
    await beside.aclose()


class Interrupted:
    """A connection; `interrupt` happens behind the first statement, once all its rows are there."""

    def __init__(self, connection: sqlite3.Connection, interrupt: Callable[[], None]) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self.interrupted = False

    def execute(self, *arguments: Any) -> Any:
        rows = self._connection.execute(*arguments).fetchall()
        if not self.interrupted:
            self.interrupted = True
            self._interrupt()
        return Rows(rows)


class Rows(list[Any]):
    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0] if self else None


def purge(database: Database) -> None:
    database.begin()
    database.save(Changes(run=run(), last_slot=3, purge=True))
    database.commit()


# -- a database that cannot be used ------------------------------------------------------------


@pytest.fixture
def holder(store: SqliteStore, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process, which writes to the file."""
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """One for each time that another process was waited for, which takes no time."""
    waits: list[Database] = []
    begin = sqlite._begin_patiently

    def count(database: Database) -> None:
        waits.append(database)
        begin(database)

    monkeypatch.setattr(sqlite, "PATIENCE_MS", 0)
    monkeypatch.setattr(sqlite, "_begin_patiently", count)
    return waits


async def write_chunk(store: SqliteStore) -> bool:
    return await store.write_stream(RUN, "s", [b"a"], close=False)


@pytest.mark.parametrize("write", [write_one, write_chunk])
async def test_a_file_that_somebody_holds_for_too_long_fails_at_once_for_all(
    store: SqliteStore, holder: sqlite3.Connection, waits: list[Database], write: Callable[[Any], Any]
) -> None:
    results = await asyncio.gather(*(write(store) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailableError}
    assert 1 <= len(waits) <= 2
    holder.execute("ROLLBACK")
    assert await write_one(store) == [1, 2]
    assert await write_chunk(store)


async def test_a_file_that_is_let_go_in_time_costs_nobody_anything(
    store: SqliteStore, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = sqlite._begin_patiently
    loop = asyncio.get_running_loop()

    def let_go(database: Database) -> None:
        asyncio.run_coroutine_threadsafe(roll_back(holder), loop).result()
        begin(database)

    monkeypatch.setattr(sqlite, "_begin_patiently", let_go)
    slots = await asyncio.gather(*(write_one(store) for _ in range(3)))
    assert slots == [[1, 2], [3, 4], [5, 6]]


async def roll_back(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")


@pytest.mark.parametrize("method", ["save", "commit"])
async def test_a_disk_without_room_is_nobodys_fault(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    tried = fail_with(monkeypatch, method, sqlite3.SQLITE_FULL)
    results = await asyncio.gather(*(write_one(store) for _ in range(5)), return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailableError}
    assert len(tried) <= 2
    monkeypatch.undo()
    assert await write_one(store) == [1, 2]


async def test_a_change_that_is_to_blame_fails_alone(store: SqliteStore) -> None:
    spoilt = Changes(run=run("other"), last_slot=1, events=(row(1), row(1)))
    changes = [write_one(store), save(store, spoilt), write_one(store)]
    results = await asyncio.gather(*changes, return_exceptions=True)
    assert isinstance(results[1], sqlite3.IntegrityError)
    assert [results[0], results[2]] == [[1, 2], [3, 4]]


async def test_a_read_that_meets_a_failing_disk_is_nobodys_fault(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, "read_log", sqlite3.SQLITE_IOERR | 1 << 8)
    with pytest.raises(StoreUnavailableError):
        await store.read_log(LogQuery(run_id=RUN))
    fail_with(monkeypatch, "read_log", sqlite3.SQLITE_ERROR)
    with pytest.raises(sqlite3.OperationalError):
        await store.read_log(LogQuery(run_id=RUN))


def fail_with(monkeypatch: pytest.MonkeyPatch, method: str, code: int) -> list[Database]:
    """Let a method of every connection fail with a result code of SQLite; one for each time it did."""
    tried: list[Database] = []

    def fail(self: Database, *_: object) -> None:
        tried.append(self)
        error = sqlite3.OperationalError("said")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(Database, method, fail)
    return tried


# -- writes that are cancelled -----------------------------------------------------------------


async def test_a_write_cancelled_again_and_again_keeps_its_turn_until_its_commit_is_over(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the rollback of a commit that fails would undo what came after it."""
    begun, go_on = threading.Event(), threading.Event()
    commit = Database.commit

    def fail(self: Database) -> None:
        monkeypatch.setattr(Database, "commit", commit)
        begun.set()
        go_on.wait()
        raise sqlite3.OperationalError("said")

    monkeypatch.setattr(Database, "commit", fail)
    cancelled = asyncio.create_task(write_chunk(store))
    await asyncio.to_thread(begun.wait)
    next_one = asyncio.create_task(store.write_stream(RUN, "s", [b"b"], close=True))
    try:
        for _ in range(3):
            cancelled.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        assert not cancelled.done()
    finally:
        go_on.set()
    assert await next_one
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    part = await store.read_stream(StreamQuery(run_id=RUN, name="s"))
    assert part == StreamPart(0, (b"b",), 1, closed=True)


def test_a_commit_waits_for_the_disk_unless_told_otherwise(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "runs.db"))
    told = []
    for waits in (True, False, False, True):
        database.wait_for_disk(waits)
        told.append((database.one("PRAGMA synchronous"), database.one("PRAGMA wal_autocheckpoint")))
    full, normal = ((2,), (1000,)), ((1,), (0,))
    assert told == [full, normal, normal, full]
    database.close()
