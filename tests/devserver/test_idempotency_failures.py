"""Executions that fail: nothing was written, and the key is free again as soon as that is certain."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden
from eventclient.devserver.idempotency import KeyOptions
from eventclient.devserver.state import State, Wanted
from eventclient.devserver.store import CommitLostError, Decision, Store, StoreUnavailableError
from eventclient.devserver.stores import sqlite
from eventclient.devserver.stores.postgres import PostgresStore
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import Api
from tests.devserver.conftest import MakeStore, empty
from tests.devserver.keyed import (
    UNGUARDED,
    Holders,
    check_executed,
    check_replay,
    check_reused,
    each_route,
    is_in_progress,
    is_replayed,
    prepare,
    retries,
    single,
)
from tests.support.fake_clock import FakeClock

LEASE_S = 30.0
KEYS = KeyOptions(deadline_s=300.0, lease_s=LEASE_S)
WRITE = UNGUARDED["single"]

Serve = Callable[[Holders], AbstractAsyncContextManager[Api]]
T = TypeVar("T")


@pytest.fixture
def serve(make_store: MakeStore, clock: FakeClock, session: aiohttp.ClientSession) -> Serve:
    """Starts a server in trouble."""

    @asynccontextmanager
    async def serve(trouble: Holders) -> AsyncIterator[Api]:
        store = make_store()
        if isinstance(trouble, Trouble):
            trouble.reach(store)
        async with DevServer(store, clock=clock, keys=KEYS, hidden=Hidden(between=trouble)) as server:
            yield Api(session, server.url)

    return serve


SAID = "said"
UNAVAILABLE = StoreUnavailableError(SAID)


class Trouble(Holders):
    """Lets what the server does behind the first claim fail, one change of its store after the other.

    Args:
        fails: what each change raises, and whether it does so when it was committed already.
    """

    def __init__(self, *fails: tuple[Exception, bool]) -> None:
        super().__init__()
        self._fails = list(fails)
        self._left: list[tuple[Exception, bool]] = []

    async def __call__(self, run_id: str, key: str, token: int) -> None:
        await super().__call__(run_id, key, token)
        self._left, self._fails = self._fails, []

    def reach(self, store: Store) -> None:
        """Get the store into trouble."""
        change = store.change

        async def troubled(
            wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool = True
        ) -> T:
            error, landed = self._left.pop(0) if self._left else (None, True)
            if error is None:
                return await change(wanted, decide, durable=durable)
            if landed:
                await change(wanted, decide, durable=durable)
            raise error

        vars(store)["change"] = troubled


@each_route
async def test_a_request_that_could_not_be_executed_leaves_its_key_free(serve: Serve, kind: str) -> None:
    delivery, trouble = UNGUARDED[kind], Trouble((UNAVAILABLE, False))
    async with serve(trouble) as api:
        await prepare(api)
        answer = await delivery.to(api)
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "store-unavailable", "1")
        assert not is_replayed(answer)
        assert SAID not in answer.json["message"]
        assert await retries(api) == 0
        check_reused(await single("step_retrying", "r", error=b"another").to(api))
        # At once: there is nothing left to wait for.
        first = await delivery.to(api)
        check_executed(first)
        assert trouble.tokens[0] < trouble.tokens[1]
        check_replay(await delivery.to(api), first)
        assert await retries(api) == 1


async def test_one_that_failed_for_any_other_reason_does_so_as_well(serve: Serve) -> None:
    async with serve(Trouble((ArithmeticError(SAID), False))) as api:
        await prepare(api)
        assert (await WRITE.to(api)).status == 500
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1


async def test_a_claim_that_cannot_be_given_back_ends_with_its_lease(serve: Serve, clock: FakeClock) -> None:
    async with serve(Trouble((UNAVAILABLE, False), (UNAVAILABLE, False))) as api:
        await prepare(api)
        assert (await WRITE.to(api)).status == 503
        assert is_in_progress(await WRITE.to(api))
        clock.advance(LEASE_S + 0.5)
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1


@pytest.mark.parametrize("landed", [True, False])
async def test_a_commit_whose_end_nobody_saw_is_found_out_about(
    serve: Serve, clock: FakeClock, landed: bool
) -> None:
    async with serve(Trouble((CommitLostError(SAID), landed))) as api:
        await prepare(api)
        answer = await WRITE.to(api)
        assert (answer.status, "Retry-After" in answer.headers) == (500, False)
        assert await retries(api) == int(landed)
        second = await WRITE.to(api)
        if landed:
            assert (second.status, is_replayed(second)) == (200, True)
        else:
            # It may be landing still.
            assert is_in_progress(second)
            clock.advance(LEASE_S + 0.5)
            second = await WRITE.to(api)
            check_executed(second)
        check_replay(await WRITE.to(api), second)
        assert await retries(api) == 1


async def test_a_claim_that_could_not_be_made_is_none(serve: Serve) -> None:
    trouble = Trouble()
    async with serve(trouble) as api:
        await prepare(api)
        trouble._left = [(UNAVAILABLE, False)]
        assert (await WRITE.to(api)).status == 503
        assert trouble.claims == []
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1


# -- the database fails ----------------------------------------------------------------------------


class Between(Holders):
    """Does something to the database behind the first claim."""

    def __init__(self, trouble: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._trouble: list[Callable[[], Awaitable[object]]] = [trouble]

    async def __call__(self, run_id: str, key: str, token: int) -> None:
        await super().__call__(run_id, key, token)
        if self._trouble:
            await self._trouble.pop()()


async def test_a_database_that_drops_its_connections_executes_once(
    shared_dsn: str, session: aiohttp.ClientSession
) -> None:
    await empty(shared_dsn)
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventclient'"
    )

    async def cut_off() -> None:
        connection = await asyncpg.connect(shared_dsn)
        assert await connection.fetch(statement)
        await connection.close()

    holders = Between(cut_off)
    async with DevServer(PostgresStore(shared_dsn), keys=KEYS, hidden=Hidden(between=holders)) as server:
        api = Api(session, server.url)
        await prepare(api)
        first = await WRITE.to(api)
        if first.status == 503:
            first = await WRITE.to(api)
        check_executed(first)
        check_replay(await WRITE.to(api), first)
        assert await retries(api) == 1


async def test_a_file_that_somebody_else_holds_executes_once(
    tmp_path: Path, session: aiohttp.ClientSession, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_MS", 0)
    path = str(tmp_path / "runs.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        async def hold() -> None:
            other.execute("BEGIN IMMEDIATE")

        hidden = Hidden(between=Between(hold))
        async with DevServer(SqliteStore(path), clock=clock, keys=KEYS, hidden=hidden) as server:
            api = Api(session, server.url)
            await prepare(api)
            # Neither the commit nor giving the claim back can be written, nor can another claim.
            for _ in range(2):
                assert (await WRITE.to(api)).status == 503
            other.execute("ROLLBACK")
            assert is_in_progress(await WRITE.to(api))
            assert await retries(api) == 0
            clock.advance(LEASE_S + 0.5)
            check_executed(await WRITE.to(api))
            assert await retries(api) == 1
