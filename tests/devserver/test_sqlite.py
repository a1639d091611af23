"""What the SQLite stores promise beside what every store does."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from eventclient.devserver.stores import STORES
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.errors import ConfigurationError
from tests.devserver.saved import EVERYTHING, load, save


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
