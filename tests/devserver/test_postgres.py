"""What the PostgreSQL store promises beside what every store does."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.state import Changes, LogQuery, State, Wanted
from eventclient.devserver.store import (
    CommitLostError,
    Decision,
    RunQuery,
    Store,
    StoreUnavailableError,
    StreamExpiredError,
    StreamQuery,
)
from eventclient.devserver.stores import STORES, postgres
from eventclient.devserver.stores.postgres import MAX_ATTEMPTS, PostgresStore
from eventclient.devserver.stores.postgres_schema import SCHEMA, SCHEMA_VERSION
from eventclient.devserver.stores.postgres_session import Session
from eventclient.errors import ConfigurationError
from tests.devserver.api import AT, RUN
from tests.devserver.conftest import empty
from tests.devserver.saved import EVERYTHING, OTHER, load, row, run, save
from tests.devserver.test_store_races import read_slots, write_many, write_one
from tests.support.postgres_cluster import GUARDED, PASSWORD, Cluster, running_cluster
from tests.support.postgres_relay import Relay


@pytest.fixture
async def dsn(shared_dsn: str) -> str:
    await empty(shared_dsn)
    return shared_dsn


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn)
    await store.open()
    yield store
    await store.aclose()


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Any]:
    """A connection that is not the store's."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA})
    yield connection
    await connection.close()


# -- opening -----------------------------------------------------------------------------------


async def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for name in [name for name in sys.modules if name.startswith("eventclient.devserver.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigurationError, match=r"eventclient\[postgres\]"):
        STORES["postgresql"]("postgresql://u:p@h/d")


async def test_several_processes_can_open_a_new_database_at_once(cluster: Cluster) -> None:
    dsn = cluster.fresh_database()
    stores = [PostgresStore(dsn) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    await save(stores[0], EVERYTHING)
    assert [(await load(store)).last_slot for store in stores] == [3] * 5
    await asyncio.gather(*(store.aclose() for store in stores))


_VERSION = f"SELECT version FROM {SCHEMA}.schema_version"  # noqa: S608 - our name


async def test_the_tables_stand_beside_those_of_others(cluster: Cluster) -> None:
    dsn = cluster.fresh_database()
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE runs (mine text); CREATE TABLE events (mine text)")
    store = PostgresStore(dsn)
    await store.open()
    await save(store, EVERYTHING)
    await store.aclose()
    assert await connection.fetch("SELECT * FROM public.runs, public.events") == []
    assert await connection.fetchval(_VERSION) == SCHEMA_VERSION
    await connection.close()


@pytest.mark.parametrize(
    ("statement", "version"),
    [
        (f"CREATE SCHEMA {SCHEMA}", "None"),
        (f"CREATE SCHEMA {SCHEMA}; CREATE TABLE {SCHEMA}.schema_version AS SELECT 99 AS version", "99"),
    ],
)
async def test_a_schema_of_someone_else_is_refused(cluster: Cluster, statement: str, version: str) -> None:
    dsn = cluster.fresh_database()
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    store = PostgresStore(dsn)
    with pytest.raises(ConfigurationError, match=f"version {version}, not {SCHEMA_VERSION}"):
        await store.open()
    with pytest.raises(ConfigurationError, match="not open"):
        await load(store)
    await connection.close()
    # It waits for those who are leaving, and fails when somebody stays.
    cluster.psql(f"DROP DATABASE {dsn.partition('?')[0].rpartition('/')[2]}")


SECRET = "secret"


@pytest.mark.parametrize(
    ("user", "password", "database", "told"),
    [
        (GUARDED, SECRET, "postgres", "password authentication failed"),
        ("nobody-of-this-name", SECRET, "postgres", 'role "nobody-of-this-name" does not exist'),
        ("owner", SECRET, "no-such-database", 'database "no-such-database" does not exist'),
        (GUARDED, PASSWORD, "postgres", "permission denied for database"),
    ],
)
async def test_a_database_that_cannot_be_used_says_why(
    cluster: Cluster, user: str, password: str, database: str, told: str
) -> None:
    dsn = cluster.dsn(database, user=user, password=password)
    with pytest.raises(ConfigurationError, match=told) as caught:
        await PostgresStore(dsn).open()
    assert database in str(caught.value)
    assert password not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("postgresql://u:secret@127.0.0.1:1/d", "Connect call failed"),
        ("postgresql://u:sec/ret@127.0.0.1:1/d", "password"),
        ("http://u:secret@127.0.0.1:1/d", "postgresql://USER"),
        ("postgresql://u:secret@h:port/d", "postgresql://USER"),
        ("postgresql://u:secret@/d?host=/no/such/folder", "No such file"),
    ],
)
async def test_a_dsn_that_leads_nowhere_says_so_without_the_password(dsn: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        await PostgresStore(dsn).open()
    assert not any(part in str(caught.value) for part in ("secret", "sec/", "ret@"))


async def test_a_commit_waits_for_the_disk_whatever_the_database_says(cluster: Cluster) -> None:
    dsn = cluster.fresh_database()
    connection = await asyncpg.connect(dsn)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    store = PostgresStore(dsn)
    await store.open()
    async with store._open_pool().acquire() as session:
        assert await session.fetchval("SHOW synchronous_commit") == "on"
    await store.aclose()


# -- transactions ------------------------------------------------------------------------------


async def test_changes_that_wait_together_share_a_transaction(store: PostgresStore, admin: Any) -> None:
    await asyncio.gather(*(write_one(store) for _ in range(50)))
    assert await admin.fetchval("SELECT count(*) FROM events") == 100
    assert await admin.fetchval("SELECT count(DISTINCT xmin::text) FROM events") == 1


async def test_what_only_looks_writes_nothing(store: PostgresStore, admin: Any) -> None:
    written = "SELECT pg_current_wal_insert_lsn()"
    await load(store, steps="s", tokens="t")
    before = await admin.fetchval(written)
    await load(store, steps="s", tokens="t")
    assert await admin.fetchval(written) == before


async def test_runs_are_changed_side_by_side(store: PostgresStore, admin: Any) -> None:
    await write_one(store)
    await admin.execute("BEGIN; LOCK TABLE runs IN ROW SHARE MODE")
    await admin.fetch("SELECT * FROM runs FOR UPDATE")
    held = asyncio.create_task(write_one(store))
    for number in range(20):
        await save(store, Changes(run=run(f"r{number}"), last_slot=0))
    assert not held.done()
    await admin.execute("COMMIT")
    assert await held == [3, 4]


async def test_a_run_that_somebody_holds_for_too_long_fails_at_once_for_all(
    dsn: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SETTINGS", {**postgres._SETTINGS, "lock_timeout": "1ms"})
    store = PostgresStore(dsn)
    await store.open()
    await write_one(store)
    await admin.execute("BEGIN")
    await Session(admin).begin(Wanted(run_id=OTHER))
    await admin.execute("COMMIT")
    await Session(admin).begin(Wanted(run_id=RUN))
    results = await asyncio.gather(*(write_one(store) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailableError}
    assert len({id(result) for result in results}) <= 2
    await admin.execute("ROLLBACK")
    assert await write_one(store) == [3, 4]
    await store.aclose()


async def test_who_writes_to_a_stream_of_a_run_that_is_being_ended_waits_for_what_becomes_of_it(
    store: PostgresStore, admin: Any
) -> None:
    await save(store, Changes(run=run(), last_slot=0))
    await admin.execute("BEGIN")
    expired = run(status="completed", completedAt=AT, expiredAt=AT)
    await Session(admin).save(Changes(run=expired, last_slot=0, purge=True))
    writing = asyncio.create_task(store.write_stream(RUN, "new", [b"secret"], close=False))
    async with store._open_pool().acquire() as watcher:
        while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert not writing.done()
    await admin.execute("COMMIT")
    with pytest.raises(StreamExpiredError):
        await writing
    assert await store.list_streams(RUN) == []


async def test_runs_that_nobody_changes_any_more_are_forgotten(store: PostgresStore) -> None:
    for number in range(3 * postgres.IDLE_GROUPS):
        await save(store, Changes(run=run(f"r{number}"), last_slot=0))
    assert len(store._groups) <= postgres.IDLE_GROUPS + 1
    assert len(await store.read_runs(RunQuery(limit=1000))) == 3 * postgres.IDLE_GROUPS


_FAIL_SOMETIMES = """
CREATE SEQUENCE {schema}.failures;
CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('{schema}.failures') <= {times} THEN
        RAISE EXCEPTION 'not now' USING ERRCODE = '{code}';
    END IF;
    RETURN NEW;
END $$;
CREATE {constraint} TRIGGER fail {when} INSERT OR UPDATE ON {schema}.runs {deferred}
FOR EACH ROW EXECUTE FUNCTION {schema}.fail();
"""
AT_ONCE = {"constraint": "", "when": "BEFORE", "deferred": ""}
AT_COMMIT = {"constraint": "CONSTRAINT", "when": "AFTER", "deferred": "DEFERRABLE INITIALLY DEFERRED"}


async def failing_store(cluster: Cluster, times: int, code: str, moment: dict[str, str]) -> PostgresStore:
    """A store whose database refuses the first so many transactions that write."""
    store = PostgresStore(cluster.fresh_database())
    await store.open()
    async with store._open_pool().acquire() as connection:
        await connection.execute(_FAIL_SOMETIMES.format(schema=SCHEMA, times=times, code=code, **moment))
    return store


@pytest.mark.parametrize("moment", [AT_ONCE, AT_COMMIT], ids=["at once", "at commit"])
@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_transaction_the_database_rolled_back_is_tried_again(
    cluster: Cluster, code: str, moment: dict[str, str]
) -> None:
    store = await failing_store(cluster, MAX_ATTEMPTS - 1, code, moment)
    assert await write_one(store) == [1, 2]
    assert await read_slots(store) == {"s1": 1, "s2": 2}
    await store.aclose()


async def test_it_is_not_tried_for_ever(cluster: Cluster) -> None:
    store = await failing_store(cluster, MAX_ATTEMPTS, "40001", AT_ONCE)
    results = await asyncio.gather(*(write_one(store) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailableError] * 3
    assert await write_one(store) == [1, 2]
    await store.aclose()


@pytest.mark.parametrize("moment", [AT_ONCE, AT_COMMIT], ids=["at once", "at commit"])
async def test_a_change_the_database_refuses_is_told_and_the_next_one_taken(
    cluster: Cluster, moment: dict[str, str]
) -> None:
    store = await failing_store(cluster, 1, "23514", moment)
    with pytest.raises(asyncpg.CheckViolationError):
        await write_one(store)
    assert await store.read_log(LogQuery(run_id=RUN)) is None
    assert await write_one(store) == [1, 2]
    await store.aclose()


# -- connections that break --------------------------------------------------------------------


def cut_off_once(monkeypatch: pytest.MonkeyPatch, admin: Any, method: str) -> list[int]:
    """Let the database end a session just before it does something for the first time; whose they were."""
    original = getattr(Session, method)
    ended: list[int] = []

    async def do(self: Session, *arguments: Any, **options: Any) -> Any:
        if not ended:
            ended.append(await self._connection.fetchval("SELECT pg_backend_pid()"))
            assert await admin.fetchval("SELECT pg_terminate_backend($1, 5000)", ended[0])
        return await original(self, *arguments, **options)

    monkeypatch.setattr(Session, method, do)
    return ended


@pytest.mark.parametrize("method", ["begin", "load", "save"])
async def test_a_connection_killed_in_mid_transaction_costs_nothing(
    store: PostgresStore, admin: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    await save(store, EVERYTHING)
    ended = cut_off_once(monkeypatch, admin, method)
    slots = await asyncio.gather(*(write_one(store) for _ in range(5)))
    assert len(ended) == 1
    assert slots == [[slot, slot + 1] for slot in (4, 6, 8, 10, 12)]
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert [row.slot for row in rows] == list(range(1, 14))


async def test_a_session_killed_while_idle_is_replaced(store: PostgresStore, admin: Any) -> None:
    await save(store, EVERYTHING)
    ended = await admin.fetch(
        """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'eventclient'"""
    )
    assert ended == [(True,)]
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert len(rows) == 3
    assert await write_one(store) == [4, 5]


@pytest.fixture
async def relay(cluster: Cluster) -> AsyncIterator[Relay]:
    with tempfile.TemporaryDirectory(prefix="ecrl-") as folder:
        async with Relay(Path(folder), cluster.socket) as relay:
            yield relay


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrived", "it did not arrive"])
async def test_a_commit_of_which_nobody_knows_is_told_and_not_repeated(
    dsn: str, store: PostgresStore, relay: Relay, arrives: bool
) -> None:
    behind = PostgresStore(relay.dsn(dsn))
    await behind.open()
    assert await write_one(behind) == [1, 2]
    asked: list[int] = []

    def decide(state: State) -> Decision[None]:
        asked.append(state.last_slot)
        slot = state.last_slot + 1
        return Decision(None, Changes(run=run(), last_slot=slot, events=(row(slot, correlationId="late"),)))

    relay.cut_commit(arrives=arrives)
    wanted = Wanted(run_id=RUN)
    results = await asyncio.gather(*(behind.change(wanted, decide) for _ in range(4)), return_exceptions=True)
    assert [type(result) for result in results] == [CommitLostError] * 4
    assert asked == [2, 3, 4, 5]
    slots = [7, 8] if arrives else [3, 4]
    assert await write_one(behind) == slots
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert [row.slot for row in rows] == list(range(1, slots[-1] + 1))
    await behind.aclose()


async def test_a_write_to_a_stream_of_which_nobody_knows_is_not_repeated(
    dsn: str, store: PostgresStore, relay: Relay
) -> None:
    behind = PostgresStore(relay.dsn(dsn))
    await behind.open()
    await behind.write_stream(RUN, "s", [b"a"], close=False)
    relay.cut_answer()
    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        await behind.write_stream(RUN, "s", [b"b"], close=False)
    assert await behind.write_stream(RUN, "s", [b"c"], close=False)
    part = await store.read_stream(StreamQuery(run_id=RUN, name="s"))
    assert part.chunks == (b"a", b"b", b"c")
    await behind.aclose()


async def test_a_read_whose_answer_was_lost_is_made_again(
    dsn: str, store: PostgresStore, relay: Relay
) -> None:
    await save(store, EVERYTHING)
    behind = PostgresStore(relay.dsn(dsn))
    await behind.open()
    relay.cut_answer()
    rows = await behind.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert len(rows) == 3
    await behind.aclose()


def give_back_in_vain(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[Any]:
    """Let every connection get lost while it is given back; those that were."""
    release = asyncpg.Pool.release
    lost: list[Any] = []

    async def lose(self: Any, connection: Any, **options: Any) -> None:
        lost.append(connection)
        await release(self, connection, **options)
        raise error

    monkeypatch.setattr(asyncpg.Pool, "release", lose)
    return lost


@pytest.mark.parametrize(
    "error", [asyncpg.ConnectionDoesNotExistError("lost"), ConnectionResetError(), TimeoutError()], ids=repr
)
async def test_what_was_done_is_not_done_again_when_giving_back_the_connection_fails(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lost = give_back_in_vain(monkeypatch, error)
    assert await write_one(store) == [1, 2]
    assert await store.write_stream(RUN, "s", [b"a"], close=False)
    rows = await store.read_log(LogQuery(run_id=RUN))
    part = await store.read_stream(StreamQuery(run_id=RUN, name="s"))
    assert len(lost) == 4
    assert rows is not None
    assert [row.slot for row in rows] == [1, 2]
    assert part.chunks == (b"a",)


async def test_what_a_change_met_is_told_although_giving_back_the_connection_fails(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_back_in_vain(monkeypatch, ConnectionResetError())
    with pytest.raises(asyncpg.UniqueViolationError):
        await save(store, Changes(run=run(), last_slot=1, events=(row(1), row(1))))


async def test_a_database_opens_although_giving_back_the_connection_fails(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = give_back_in_vain(monkeypatch, ConnectionResetError())
    store = PostgresStore(dsn)
    await store.open()
    assert len(lost) == 1
    await store.aclose()


async def test_a_connection_is_not_worn_out_by_its_statements(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    create = asyncpg.create_pool

    def look(*arguments: Any, **options: Any) -> Any:
        asked.update(options)
        return create(*arguments, **options)

    monkeypatch.setattr(asyncpg, "create_pool", look)
    store = PostgresStore(dsn)
    await store.open()
    await store.aclose()
    assert asked["max_queries"] == sys.maxsize


# -- a crash of the cluster --------------------------------------------------------------------


async def test_what_was_answered_outlives_a_crash_of_the_cluster() -> None:
    """Writers are at it while the cluster crashes and comes back; they meet errors in between."""
    with running_cluster() as cluster:
        store = PostgresStore(cluster.fresh_database())
        await store.open()
        await write_one(store)
        crashed = asyncio.Event()
        back = asyncio.Event()

        async def write_on(number: int) -> dict[str, int]:
            answered: dict[str, int] = {}
            turn = 0
            while not back.is_set():
                turn += 1
                try:
                    answered |= await write_turn(store, f"w{number}-{turn}")
                except (CommitLostError, StoreUnavailableError):
                    crashed.set()
                    await back.wait()
            return answered | await write_many(store, f"w{number}-later")

        writing = asyncio.gather(*(write_on(number) for number in range(4)))
        await asyncio.to_thread(cluster.stop, "immediate")
        await crashed.wait()
        await asyncio.to_thread(cluster.start)
        back.set()
        answered: dict[str, int] = {}
        for each in await writing:
            answered |= each
        kept = await read_slots(store)
        assert {name: kept.get(name) for name in answered} == answered
        assert len(answered) > 4
        await store.aclose()


async def write_turn(store: Store, name: str) -> dict[str, int]:
    """Append one event; its slot."""

    def decide(state: State) -> Decision[int]:
        slot = state.last_slot + 1
        return Decision(slot, Changes(run=run(), last_slot=slot, events=(row(slot, correlationId=name),)))

    return {name: await store.change(Wanted(run_id=RUN), partial(decide))}


async def test_a_commit_waits_for_the_disk_unless_told_otherwise(store: PostgresStore, admin: Any) -> None:
    told = []
    for durable in (True, False, True):
        session = Session(admin)
        await session.begin(Wanted(run_id=RUN), durable=durable)
        told.append(await admin.fetchval("SHOW synchronous_commit"))
        await session.commit()
    assert told == ["on", "off", "on"]
