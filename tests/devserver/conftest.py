from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.store import Store
from eventclient.devserver.stores import STORES
from eventclient.devserver.stores.postgres_schema import SCHEMA
from tests.devserver.api import Api
from tests.support.fake_clock import FakeClock
from tests.support.postgres_cluster import Cluster, ClusterUnavailableError, running_cluster
from tests.support.presence import missing

MakeStore = Callable[[], Store]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL cluster of our own."""
    try:
        with running_cluster() as cluster:
            yield cluster
    except ClusterUnavailableError as error:
        missing("postgres", str(error))


@pytest.fixture(scope="session")
def shared_dsn(cluster: Cluster) -> str:
    """The DSN of a database that the tests use one after the other; `empty` it first."""
    return cluster.fresh_database()


@pytest.fixture(params=["memory", "file", "postgres"])
async def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes stores of one kind; those of a durable kind share what they keep."""
    return await maker(request.param, request, tmp_path)


@pytest.fixture(params=["file", "postgres"])
async def make_shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes stores that share what they keep, as those of several processes do."""
    return await maker(request.param, request, tmp_path)


async def maker(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """What makes stores of `kind` in an empty place."""
    if kind == "postgres":
        dsn = request.getfixturevalue("shared_dsn")
        await empty(dsn)
        return lambda: STORES["postgresql"](dsn)
    place = ":memory:" if kind == "memory" else str(tmp_path / "runs.db")
    return lambda: STORES["sqlite"](place)


@pytest.fixture
async def store(make_store: MakeStore) -> AsyncIterator[Store]:
    """An open store of each kind."""
    store = make_store()
    await store.open()
    yield store
    await store.aclose()


async def empty(dsn: str) -> None:
    """Take everything out of the tables of a database. Much cheaper than a new database."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_CUT_OFF_OTHERS)
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", SCHEMA)
        for (name,) in rows:
            if name != "schema_version":
                await connection.execute(f"DELETE FROM {SCHEMA}.{name}")  # noqa: S608 - our names
    finally:
        await connection.close()


_CUT_OFF_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def server(make_store: MakeStore, clock: FakeClock) -> AsyncIterator[DevServer]:
    async with DevServer(make_store(), clock=clock) as server:
        yield server


@pytest.fixture
def api(server: DevServer, session: aiohttp.ClientSession) -> Api:
    return Api(session, server.url)
