"""What a caller of the server meets when its store cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.state import Wanted
from eventclient.devserver.store import CommitLostError, StoreUnavailableError
from eventclient.devserver.stores import postgres, sqlite
from eventclient.devserver.stores.postgres import PostgresStore
from eventclient.devserver.stores.postgres_schema import SCHEMA
from eventclient.devserver.stores.postgres_session import Session
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import RUN, Answer, Api, event
from tests.devserver.conftest import empty

STREAM = f"/api/v2/runs/{RUN}/stream/s"


def check_unavailable(answer: Answer) -> None:
    assert (answer.status, answer.code) == (503, "store-unavailable"), answer
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["message"] == "the store cannot be used at the moment: nothing was written"


async def write_all(api: Api) -> list[Answer]:
    """An event, a batch and a chunk of a stream."""
    created = event("step_created", "s", stepName="work", input=b"")
    return list(
        await asyncio.gather(
            api.post("run_started"), api.batch(created), api.request("PUT", STREAM, data=b"chunk")
        )
    )


async def test_a_file_that_another_process_holds_is_a_503(
    tmp_path: Path, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_MS", 0)
    path = tmp_path / "runs.db"
    async with DevServer(SqliteStore(str(path))) as server:
        api = Api(session, server.url)
        await api.pending_run()
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            for answer in await write_all(api):
                check_unavailable(answer)
        assert await api.log() == [("run_created", None)]
        assert (await api.post("run_started")).status == 200


async def test_a_run_that_another_process_holds_is_a_503(
    shared_dsn: str, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await empty(shared_dsn)
    monkeypatch.setattr(postgres, "_SETTINGS", {**postgres._SETTINGS, "lock_timeout": "1ms"})
    async with DevServer(PostgresStore(shared_dsn)) as server:
        api = Api(session, server.url)
        await api.pending_run()
        holder = await asyncpg.connect(shared_dsn, server_settings={"search_path": SCHEMA})
        try:
            await Session(holder).begin(Wanted(run_id=RUN))
            await holder.execute("LOCK TABLE streams IN ACCESS EXCLUSIVE MODE")
            for answer in await write_all(api):
                check_unavailable(answer)
        finally:
            await holder.close()
        assert await api.log() == [("run_created", None)]
        assert (await api.post("run_started")).status == 200


async def test_a_database_that_cannot_be_reached_is_a_503(
    shared_dsn: str, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await empty(shared_dsn)
    async with DevServer(PostgresStore(shared_dsn)) as server:
        api = Api(session, server.url)
        await api.pending_run()

        async def refuse(*_: object, **__: object) -> Any:
            raise ConnectionRefusedError("no such place")

        monkeypatch.setattr(asyncpg.Pool, "acquire", refuse)
        for answer in [*await write_all(api), await api.request("GET", f"/api/v2/runs/{RUN}")]:
            check_unavailable(answer)


class BrokenStore(SqliteStore):
    """Fails as told."""

    error: Exception | None = None

    async def change(self, *_: Any, **__: Any) -> Any:
        raise self.error or AssertionError

    async def read_stream(self, *arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await super().read_stream(*arguments)


@pytest.mark.parametrize("error", [CommitLostError("lost"), sqlite3.IntegrityError("said")], ids=repr)
async def test_what_may_have_been_written_or_is_a_fault_is_a_500(
    session: aiohttp.ClientSession, error: Exception
) -> None:
    store = BrokenStore()
    store.error = error
    async with DevServer(store) as server:
        answer = await Api(session, server.url).post("run_started")
    assert answer.status == 500
    assert "Retry-After" not in answer.headers


async def test_a_live_read_is_broken_off_and_does_not_look_like_the_end(
    session: aiohttp.ClientSession,
) -> None:
    store = BrokenStore()
    async with DevServer(store) as server:
        await store.write_stream(RUN, "s", [b"a"], close=False)
        async with session.get(f"{server.url}/api/v3/runs/{RUN}/stream/s") as response:
            assert await response.content.readexactly(1) == b"a"
            store.error = StoreUnavailableError("said")
            await session.put(f"{server.url}{STREAM}", data=b"b")
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()
