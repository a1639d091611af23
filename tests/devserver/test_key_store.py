"""What every `Store` promises about the records of requests that carried an idempotency key."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.evaluation import Evaluation
from eventclient.devserver.recorded import encode_answer
from eventclient.devserver.ruling import Repeated
from eventclient.devserver.state import Changes, KeyChanges, KeyRecord, LogQuery, State, Wanted
from eventclient.devserver.store import Decision, Store
from eventclient.devserver.stores.postgres import PostgresStore
from eventclient.devserver.stores.postgres_schema import SCHEMA
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import RUN
from tests.devserver.conftest import MakeStore
from tests.devserver.saved import EVERYTHING, OTHER, load, row, run, save, step
from tests.support.postgres_cluster import Cluster

NOW_MS = 1_767_225_600_000
CLAIM = KeyRecord(
    fingerprint=b"\0\xfff", token=NOW_MS, lease_until_ms=NOW_MS + 15_000, expires_ms=NOW_MS + 86_400_000
)
SECRET = b"devlsecret"


def answer(*, payload: bytes = b"", slot: int = 3) -> bytes:
    """A recorded answer that holds a step."""
    evaluation = Evaluation((Repeated(slot, step=step(input=payload)),), slot)
    return encode_answer(evaluation, [bool(payload)])


COMMITTED = replace(CLAIM, lease_until_ms=None, answer=answer())


async def keep(store: Store, records: Mapping[str, KeyRecord], run_id: str = RUN) -> None:
    """Save records and nothing else."""
    changes = KeyChanges(run_id=run_id, records=records)
    await store.change(Wanted(run_id=run_id), lambda _: Decision(None, changes))


async def records(store: Store, *keys: str, run_id: str = RUN) -> Mapping[str, KeyRecord]:
    return (await load(store, run_id, keys=keys)).records


async def test_there_is_no_record_before_one_is_saved(store: Store) -> None:
    assert await load(store, keys=["k"]) == State()


async def test_a_record_needs_no_run(store: Store) -> None:
    await keep(store, {"k": CLAIM})
    assert await load(store, keys=["k", "x"]) == State(records={"k": CLAIM})
    assert await store.read_log(LogQuery(run_id=RUN)) is None


async def test_a_record_is_saved_with_the_events_it_is_about(store: Store) -> None:
    await save(store, replace(EVERYTHING, records={"k": COMMITTED}))
    state = await load(store, keys=["k"], steps=["s"])
    assert (state.run, state.last_slot) == (run(), 3)
    assert (state.records, state.steps) == ({"k": COMMITTED}, EVERYTHING.steps)


@pytest.mark.parametrize(
    "record",
    [
        CLAIM,
        COMMITTED,
        replace(CLAIM, lease_until_ms=None),
        replace(COMMITTED, has_payloads=True, answer=answer(payload=bytes(range(256)))),
        replace(COMMITTED, token=2**53, expires_ms=2**53, fingerprint=bytes(32)),
    ],
    ids=["held", "committed", "free", "payloads", "numbers"],
)
async def test_a_record_comes_back_as_it_was(store: Store, record: KeyRecord) -> None:
    await keep(store, {"k": record})
    assert await records(store, "k") == {"k": record}


async def test_only_what_is_wanted_is_loaded(store: Store) -> None:
    await keep(store, {"a": CLAIM, "b": COMMITTED})
    await keep(store, {"a": COMMITTED}, OTHER)
    assert await records(store) == {}
    assert await records(store, "b", "c") == {"b": COMMITTED}
    assert await records(store, "a", "b", run_id=OTHER) == {"a": COMMITTED}


async def test_a_record_takes_the_place_of_the_one_before(store: Store) -> None:
    await keep(store, {"k": CLAIM, "other": CLAIM})
    await keep(store, {"k": COMMITTED})
    await save(store, replace(EVERYTHING, records={"k": replace(COMMITTED, token=5)}))
    assert await records(store, "k", "other") == {"k": replace(COMMITTED, token=5), "other": CLAIM}


async def test_any_key_of_any_run(store: Store) -> None:
    keys = [
        "k",
        "K",
        " ",
        "k" * 255,
        "k" * 254,
        "#",
        "'",
        '"',
        "\\",
        "%",
        "_",
        "".join(map(chr, range(0x20, 0x7F))),
    ]
    runs = [RUN, "r" * 256, "\xe9", "#", " "]
    for run_id in runs:
        await keep(store, {key: replace(CLAIM, token=index) for index, key in enumerate(keys)}, run_id)
    for run_id in runs:
        found = await records(store, *keys, run_id=run_id)
        assert [found[key].token for key in keys] == list(range(len(keys)))


async def test_what_fails_leaves_no_record(store: Store) -> None:
    await keep(store, {"k": CLAIM})

    def fail(_: State) -> Decision[None]:
        raise ArithmeticError

    async def claim() -> None:
        await keep(store, {"beside": CLAIM})

    with pytest.raises(ArithmeticError):
        await asyncio.gather(store.change(Wanted(run_id=RUN, keys=frozenset("k")), fail), claim())
    taken = replace(EVERYTHING, records={"k": COMMITTED}, events=(*EVERYTHING.events, EVERYTHING.events[0]))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await save(store, taken)
    assert await records(store, "k") == {"k": CLAIM}
    assert (await load(store)).last_slot == 0


def count_up(state: State) -> Decision[int]:
    """Raise the token; the token there was."""
    known = state.records.get("k", replace(CLAIM, token=0))
    raised = replace(known, token=known.token + 1)
    return Decision(known.token, KeyChanges(run_id=RUN, records={"k": raised}))


async def test_each_change_sees_what_those_before_it_saved(store: Store) -> None:
    wanted = Wanted(run_id=RUN, keys=frozenset("k"))
    seen = await asyncio.gather(*(store.change(wanted, count_up) for _ in range(30)))
    assert sorted(seen) == list(range(30))
    assert (await records(store, "k"))["k"].token == 30


async def test_changes_of_the_run_and_of_its_records_go_together(store: Store) -> None:
    """What waits at the same time may share a commit, be it about the run, its records or both."""
    wanted = Wanted(run_id=RUN, keys=frozenset({"k"}))

    def append(state: State) -> Decision[int]:
        slot = state.last_slot + 1
        known = state.records.get("k", replace(CLAIM, token=0))
        kept = {f"slot {slot}": replace(COMMITTED, token=known.token)}
        return Decision(slot, Changes(run=run(), last_slot=slot, events=(row(slot),), records=kept))

    each = [store.change(wanted, decide) for _ in range(8) for decide in (append, count_up)]
    await asyncio.gather(*each)
    state = await load(store, keys=["k", *(f"slot {slot}" for slot in range(1, 10))])
    assert (state.last_slot, state.records["k"].token) == (8, 8)
    assert [state.records[f"slot {slot}"].token for slot in range(1, 9)] == list(range(8))


# -- forgetting ------------------------------------------------------------------------------------


async def test_what_has_expired_is_dropped(store: Store) -> None:
    for run_id in (RUN, OTHER):
        await keep(
            store,
            {str(offset): replace(COMMITTED, expires_ms=NOW_MS + offset) for offset in (-1, 0, 1)},
            run_id,
        )
    assert await store.drop_records(NOW_MS, 100) == 4
    for run_id in (RUN, OTHER):
        assert set(await records(store, "-1", "0", "1", run_id=run_id)) == {"1"}
    assert await store.drop_records(NOW_MS, 100) == 0


async def test_no_more_is_dropped_at_once_than_was_asked_for(store: Store) -> None:
    names = [str(number) for number in range(10)]
    await keep(store, {name: replace(CLAIM, expires_ms=number) for number, name in enumerate(names)})
    dropped = [await store.drop_records(8, 4) for _ in range(4)]
    assert dropped == [4, 4, 1, 0]
    assert set(await records(store, *names)) == {"9"}


async def test_only_records_are_dropped(store: Store) -> None:
    await save(store, replace(EVERYTHING, records={"k": replace(COMMITTED, expires_ms=0)}))
    assert await store.drop_records(NOW_MS, 100) == 1
    state = await load(store, keys=["k"], steps=["s"], claims=["key"])
    assert (state.last_slot, set(state.steps), set(state.claims)) == (3, {"s"}, {"key"})
    assert state.records == {}


# -- payloads --------------------------------------------------------------------------------------


async def test_the_payloads_of_a_run_go_from_its_records_alone(store: Store) -> None:
    full = replace(COMMITTED, answer=answer(payload=SECRET), has_payloads=True)
    assert SECRET in (full.answer or b"")
    await save(store, EVERYTHING)
    before = {"full": full, "bare": COMMITTED, "claimed": replace(CLAIM, has_payloads=True)}
    await keep(store, before)
    await keep(store, {"full": full}, OTHER)
    await save(store, Changes(run=run(), last_slot=3, purge=True, records={"last": full}))
    after = await records(store, "full", "bare", "claimed", "last")
    stripped = replace(COMMITTED, answer=answer(), has_payloads=False)
    assert after == {**before, "full": stripped, "last": stripped}
    assert await records(store, "full", run_id=OTHER) == {"full": full}


# -- stores that share what they keep --------------------------------------------------------------


@pytest.fixture
async def stores(make_shared_store: MakeStore) -> AsyncIterator[list[Store]]:
    both = [make_shared_store(), make_shared_store()]
    for store in both:
        await store.open()
    yield both
    for store in both:
        await store.aclose()


async def test_one_finds_what_the_other_recorded(stores: list[Store]) -> None:
    one, other = stores
    await keep(one, {"k": CLAIM})
    assert await records(other, "k") == {"k": CLAIM}
    await save(other, replace(EVERYTHING, records={"k": COMMITTED}))
    assert await records(one, "k") == {"k": COMMITTED}


async def test_they_change_a_record_one_after_the_other(stores: list[Store]) -> None:
    wanted = Wanted(run_id=RUN, keys=frozenset("k"))
    seen = await asyncio.gather(*(store.change(wanted, count_up) for store in stores * 10))
    assert sorted(seen) == list(range(20))


async def test_both_may_drop_at_once(stores: list[Store]) -> None:
    names = [str(number) for number in range(40)]
    await keep(stores[0], dict.fromkeys(names, replace(CLAIM, expires_ms=0)))
    await keep(stores[0], {"young": CLAIM})
    dropped = await asyncio.gather(*(store.drop_records(NOW_MS, 15) for store in stores * 3))
    # Those that one is dropping are not waited for.
    left = 40 - sum(dropped)
    assert len(await records(stores[1], *names)) == left
    assert await stores[0].drop_records(NOW_MS, 100) == left
    assert set(await records(stores[1], *names, "young")) == {"young"}


# -- stores from before there were keys ------------------------------------------------------------


async def test_a_file_from_before_there_were_keys_is_brought_up_to_date(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    store = SqliteStore(path)
    await store.open()
    await save(store, EVERYTHING)
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TABLE requests; PRAGMA user_version = 2;")
    await check_brought_up([SqliteStore(path), SqliteStore(path)])


async def test_so_is_a_database(cluster: Cluster) -> None:
    dsn = cluster.fresh_database()
    store = PostgresStore(dsn)
    await store.open()
    await save(store, EVERYTHING)
    await store.aclose()
    connection = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA})
    await connection.execute("DROP TABLE requests; UPDATE schema_version SET version = 1;")
    await connection.close()
    await check_brought_up([PostgresStore(dsn), PostgresStore(dsn)])


async def check_brought_up(stores: list[Store]) -> None:
    """Open an old store twice at once, and look whether all is there and records can be kept."""
    await asyncio.gather(*(store.open() for store in stores))
    state = await load(stores[0], steps=["s"], claims=["key"], keys=["k"])
    assert (state.run, state.last_slot) == (run(), 3)
    assert (state.steps, state.records) == (EVERYTHING.steps, {})
    await keep(stores[0], {"k": COMMITTED})
    assert await records(stores[1], "k") == {"k": COMMITTED}
    for store in stores:
        await store.aclose()
