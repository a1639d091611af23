"""How long a key is stood by, and what is kept of it: nothing beyond that, and no payload of a run that keeps
none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden
from eventclient.devserver.idempotency import KeyOptions
from eventclient.devserver.store import Store
from eventclient.devserver.stores.postgres import PostgresStore
from eventclient.devserver.stores.postgres_schema import SCHEMA
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.errors import ConfigurationError
from eventclient.wire.params import WriteParams
from tests.devserver.api import FRAMES, RUN, Answer, Api, event
from tests.devserver.conftest import MakeStore
from tests.devserver.keyed import (
    LOST,
    UNGUARDED,
    Delivery,
    Holders,
    batch,
    check_executed,
    check_replay,
    flat,
    is_in_progress,
    is_replayed,
    prepare,
    retries,
    single,
)
from tests.support.fake_clock import FakeClock

DAY_S = 86_400.0
WRITE = replace(UNGUARDED["single"], key="a key that is looked for")
SECRET = b"devlsecret"
ZERO: dict[str, Any] = {"attributes": {"$retention": "0"}, "allowReservedAttributes": True}
ALL = WriteParams(resolve_data="all")

Serve = Callable[..., AbstractAsyncContextManager[tuple[Api, Store]]]


@pytest.fixture
def serve(make_store: MakeStore, clock: FakeClock, session: aiohttp.ClientSession) -> Serve:
    """Starts a server over a store that can be looked into."""

    @asynccontextmanager
    async def serve(
        keys: KeyOptions | None = None, holders: Holders | None = None
    ) -> AsyncIterator[tuple[Api, Store]]:
        store = make_store()
        hidden = Hidden(between=holders or Holders())
        async with DevServer(store, clock=clock, keys=keys, hidden=hidden) as server:
            yield Api(session, server.url), store

    return serve


async def kept(store: Store) -> bytes:
    """All there is in the tables of a store, in one piece."""
    if isinstance(store, SqliteStore):
        connection = store._open().writer._connection
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = [connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in names]  # noqa: S608
    else:
        assert isinstance(store, PostgresStore)
        tables = await postgres_tables(store._dsn)
    cells = [cell for rows in tables for row in rows for cell in row]
    return b"\n".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells)


async def postgres_tables(dsn: str) -> list[list[tuple[Any, ...]]]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", SCHEMA)
        return [
            [tuple(row) for row in await connection.fetch(f'SELECT * FROM {SCHEMA}."{name}"')]  # noqa: S608
            for (name,) in rows
        ]
    finally:
        await connection.close()


# -- how long ------------------------------------------------------------------------------------


async def test_a_key_is_stood_by_for_a_day_and_then_forgotten(serve: Serve, clock: FakeClock) -> None:
    async with serve() as (api, store):
        await prepare(api)
        first = await WRITE.to(api)
        clock.advance(DAY_S - 0.5)
        check_replay(await WRITE.to(api), first)
        assert b"a key that is looked for" in await kept(store)
        clock.advance(1)
        second = await WRITE.to(api)
        check_executed(second)
        assert second.body != first.body
        assert await retries(api) == 2
        # It begins anew.
        clock.advance(DAY_S - 0.5)
        check_replay(await WRITE.to(api), second)


async def test_a_key_that_was_forgotten_may_stand_for_another_request(serve: Serve, clock: FakeClock) -> None:
    async with serve(KeyOptions(lease_s=1.0, retention_s=60.0)) as (api, _):
        await prepare(api)
        check_executed(await WRITE.to(api))
        clock.advance(60.5)
        check_executed(await single("step_retrying", "r", key=WRITE.key, error=b"other").to(api))
        assert await retries(api) == 2


async def test_the_day_begins_with_the_commit(serve: Serve, clock: FakeClock) -> None:
    class Slow(Holders):
        async def __call__(self, run_id: str, key: str, token: int) -> None:
            clock.advance(10)

    async with serve(KeyOptions(lease_s=15.0, retention_s=60.0), Slow()) as (api, _):
        await prepare(api)
        first = await WRITE.to(api)
        clock.advance(55)
        check_replay(await WRITE.to(api), first)
        clock.advance(5.5)
        check_executed(await WRITE.to(api))


async def test_what_is_forgotten_is_gone_from_the_store(serve: Serve, clock: FakeClock) -> None:
    async with serve(KeyOptions(retention_s=3600.0)) as (api, store):
        await prepare(api)
        await prepare(api, "other")
        for number in range(5):
            await replace(WRITE, key=f"{WRITE.key} {number}").to(api)
        await single("step_created", "r", key=WRITE.key, stepName="work").to(api)
        await single("step_created", "r", run="nobody", key=WRITE.key, stepName="work").to(api)
        assert (await kept(store)).count(b"a key that is looked for") == 7
        clock.advance(1800)
        await single("step_retrying", "r", run="other", key="younger", error=b"devle").to(api)
        assert (await kept(store)).count(b"a key that is looked for") == 7
        clock.advance(1801)
        check_executed(await single("step_retrying", "r", run="other", key="young", error=b"devle").to(api))
        rest = await kept(store)
        assert b"a key that is looked for" not in rest
        assert b"younger" in rest
        # What was written stays.
        assert await retries(api) == 5


async def test_a_claim_that_nobody_came_back_for_is_forgotten_too(serve: Serve, clock: FakeClock) -> None:
    async with serve(KeyOptions(retention_s=3600.0), Holders(LOST)) as (api, store):
        await prepare(api)
        with pytest.raises(aiohttp.ClientConnectionError):
            await WRITE.to(api)
        assert is_in_progress(await WRITE.to(api))
        clock.advance(2 * 3600.0)
        check_executed(await replace(WRITE, key="young").to(api))
        assert b"a key that is looked for" not in await kept(store)
        assert await retries(api) == 1


# -- what of a run that keeps no payloads ----------------------------------------------------------


def writes() -> dict[str, Delivery]:
    """Writes whose answers hold the payload, over every route."""
    step: dict[str, Any] = {"stepName": "work", "input": SECRET}
    resolved = {"remoteRefBehavior": "resolve"}
    return {
        "created": single(
            "run_created", params=ALL, key="1", deploymentId="d", workflowName="w", input=SECRET, **ZERO
        ),
        "started": single("run_started", headers=FRAMES, key="2"),
        "step": flat("step_created", "s", key="3", data=step, **resolved),
        "delta": single(
            "step_started",
            "s",
            key="4",
            params=WriteParams(since_cursor="eid:evnt_00000000000000000000000001"),
        ),
        "failed": single("step_retrying", "s", key="5", params=ALL, error=SECRET),
        "lazy": single("step_started", "t", key="6", params=ALL, **step),
        "batch": batch(
            event("step_completed", "t", result=SECRET), event("step_created", "u", **step), key="7"
        ),
        "hook": flat("hook_created", "h", key="8", data={"token": "tok", "metadata": SECRET}, **resolved),
        "received": flat("hook_received", "h", key="9", data={"payload": SECRET}, **resolved),
        "refused": single("step_created", "s", key="10", params=ALL, **step),
    }


async def answered(api: Api) -> dict[str, tuple[Delivery, Answer]]:
    """`writes`, delivered."""
    answers = {}
    for name, delivery in writes().items():
        answers[name] = (delivery, await delivery.to(api))
        check_executed(answers[name][1], 409 if name == "refused" else 200)
        check_replay(await delivery.to(api), answers[name][1])
    return answers


ENDS = {
    "completed": single("run_completed", key="end", params=ALL, output=SECRET),
    "failed": flat("run_failed", key="end", data={"error": SECRET}, remoteRefBehavior="resolve"),
    "cancelled": single("run_cancelled", key="end", params=ALL),
    "batch": batch(
        event("step_completed", "u", result=SECRET), event("run_completed", output=SECRET), key="end"
    ),
}


@pytest.mark.parametrize(
    ("make_store", "end"),
    [*(("memory", end) for end in ENDS), ("file", "completed"), ("postgres", "batch")],
    indirect=["make_store"],
)
async def test_no_record_keeps_a_payload_of_a_run_that_keeps_none(serve: Serve, end: str) -> None:
    async with serve() as (api, store):
        answers = await answered(api)
        told = [name for name, (_, answer) in answers.items() if SECRET in answer.body]
        assert set(told) >= {"created", "started", "step", "delta", "lazy", "hook", "received"}
        assert SECRET in await kept(store)
        ended = await ENDS[end].to(api)
        check_executed(ended)
        assert SECRET not in await kept(store)
        log = await api.log()
        answers["end"] = (ENDS[end], ended)
        for name, (delivery, first) in answers.items():
            again = await delivery.to(api)
            assert is_replayed(again), name
            assert (again.status, again.content_type) == (first.status, first.content_type)
            assert SECRET not in again.body
            if SECRET not in first.body:
                assert again.body == first.body, name
        assert await api.log() == log
        assert SECRET not in await kept(store)


async def test_all_but_the_payload_is_answered_as_before(serve: Serve) -> None:
    async with serve() as (api, _):
        answers = await answered(api)
        await ENDS["completed"].to(api)
        step, first = answers["step"]
        value, before = (await step.to(api)).value, first.value
        assert before["step"].pop("input") == SECRET
        assert before["event"]["eventData"].pop("input") == SECRET
        value["event"]["eventData"].pop("input", None)
        value["step"].pop("input", None)
        assert value == before
        start, first = answers["started"]
        rows = (await start.to(api)).events
        assert rows == [{**row, "body": b""} for row in first.events]


async def test_what_comes_behind_the_end_leaves_none_either(serve: Serve) -> None:
    async with serve() as (api, store):
        await answered(api)
        await ENDS["cancelled"].to(api)
        late = flat("step_completed", "u", key="late", data={"result": SECRET}, remoteRefBehavior="resolve")
        first = await late.to(api)
        check_executed(first)
        assert SECRET not in await kept(store)
        again = await late.to(api)
        assert (again.status, is_replayed(again)) == (200, True)
        assert SECRET not in again.body


async def test_other_runs_keep_theirs(serve: Serve) -> None:
    async with serve() as (api, store):
        await prepare(api, "other")
        step = single("step_created", "s", run="other", params=ALL, stepName="work", input=b"devlother")
        first = await step.to(api)
        await answered(api)
        await ENDS["completed"].to(api)
        check_replay(await step.to(api), first)
        assert b"devlother" in await kept(store)


@pytest.mark.parametrize("at", ["before the end", "behind it"])
async def test_a_claim_that_outlives_the_run_keeps_none(serve: Serve, clock: FakeClock, at: str) -> None:
    holders = Holders()
    keys = KeyOptions(lease_s=30.0)
    late = single("step_completed", "s", key="late", params=ALL, result=SECRET)
    async with serve(keys, holders) as (api, store):
        await answered(api)
        await api.post("step_started", "s")
        holders._fates = [LOST]
        if at == "before the end":
            with pytest.raises(aiohttp.ClientConnectionError):
                await late.to(api)
        await single("run_cancelled", key=None).to(api)
        if at == "behind it":
            holders._fates = [LOST]
            with pytest.raises(aiohttp.ClientConnectionError):
                await late.to(api)
        assert SECRET not in await kept(store)
        clock.advance(31)
        check_executed(await late.to(api))
        assert is_replayed(await late.to(api))
        assert SECRET not in await kept(store)
        assert ("step_completed", "s") in await api.log(RUN)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"lease_s": -1.0}, "lease_s"),
        ({"lease_s": float("nan")}, "lease_s"),
        ({"retention_s": float("inf")}, "retention_s"),
        ({"lease_s": 1e300, "retention_s": 1e300}, "lease_s"),
        ({"lease_s": 100.0, "retention_s": 99.0}, "retention_s"),
        # Whoever collects an answer would come too late for it.
        ({"lease_s": 0.5, "retention_s": 0.5}, "retention_s"),
    ],
)
def test_options_that_cannot_be_kept(options: dict[str, float], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        KeyOptions(**options)
