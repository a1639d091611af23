"""Reads that wait for a run to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.long_polls import MAX_WAIT_S, LongPolls
from eventclient.devserver.notices import Notices
from eventclient.devserver.store import Listed, RunQuery
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.model.entities import Run
from tests.devserver.api import RUN, Answer, Api
from tests.support.fake_clock import FakeClock

PATH = f"/v2/runs/{RUN}/status"


class Watched(SqliteStore):
    """A store that tells when runs have been read."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = asyncio.Semaphore(0)

    async def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        listed = await super().read_runs(query)
        self.seen.release()
        return listed


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
async def server(store: Watched, clock: FakeClock) -> AsyncIterator[DevServer]:
    async with DevServer(store, clock=clock) as server:
        yield server


class Poll:
    """A long poll that is waiting."""

    def __init__(self, api: Api, query: str) -> None:
        self.answer: asyncio.Task[Answer] = asyncio.create_task(api.call("GET", f"{PATH}?{query}"))

    async def value(self) -> dict[str, Any]:
        return (await self.answer).value


async def poll(api: Api, store: Watched, query: str = "waitMs=20000") -> Poll:
    """A poll that has found the run going on."""
    poll = Poll(api, query)
    await store.seen.acquire()
    return poll


async def test_it_is_answered_when_the_run_ends(api: Api, store: Watched) -> None:
    await api.running_run()
    waiting = [await poll(api, store), await poll(api, store, "waitMs=20000&remoteRefBehavior=lazy")]
    # What does not end the run is seen, and answers nobody.
    await api.post("wait_created", "w", resumeAt="2026-01-02T00:00:00Z")
    for _ in waiting:
        await store.seen.acquire()
    assert not any(poll.answer.done() for poll in waiting)
    await api.post("run_completed", output=b"devlo")
    resolved, lazy = [await poll.value() for poll in waiting]
    assert (resolved["status"], resolved["output"]) == ("completed", b"devlo")
    assert lazy["status"] == "completed"
    assert "output" not in lazy


async def test_it_is_answered_as_the_run_is_when_the_wait_is_over(
    api: Api, store: Watched, clock: FakeClock
) -> None:
    await api.running_run()
    waiting = await poll(api, store, "waitMs=9000")
    clock.advance(9)
    assert (await waiting.value())["status"] == "running"


async def test_no_wait_is_longer_than_the_server_allows(api: Api, store: Watched, clock: FakeClock) -> None:
    await api.running_run()
    waiting = await poll(api, store, "waitMs=999999999")
    clock.advance(MAX_WAIT_S)
    assert (await waiting.value())["status"] == "running"


@pytest.mark.parametrize("query", ["", "waitMs=0"])
async def test_without_a_wait_it_is_a_read(api: Api, query: str) -> None:
    await api.pending_run()
    assert (await api.call("GET", f"{PATH}?{query}")).value["status"] == "pending"


async def test_a_run_that_has_ended_is_answered_at_once(api: Api) -> None:
    await api.pending_run()
    await api.post("run_cancelled")
    assert (await api.call("GET", f"{PATH}?waitMs=20000")).value["status"] == "cancelled"


async def test_a_run_that_is_not_there_is_not_waited_for(api: Api) -> None:
    answer = await api.call("GET", f"{PATH}?waitMs=20000")
    assert (answer.status, answer.code) == (404, "run-not-found")


@pytest.mark.parametrize("wait", ["", "-1", "1.5", "soon", "1" * 10, "%D9%A1"])
async def test_a_wait_is_a_whole_number(api: Api, wait: str) -> None:
    await api.pending_run()
    answer = await api.call("GET", f"{PATH}?waitMs={wait}")
    assert (answer.status, answer.code) == (400, "invalid-request")


async def test_a_server_that_stops_answers_those_who_wait(
    session: aiohttp.ClientSession, store: Watched, clock: FakeClock
) -> None:
    async with DevServer(store, clock=clock) as server:
        api = Api(session, server.url)
        await api.running_run()
        waiting = await poll(api, store)
    assert (await waiting.value())["status"] == "running"


class Connection(asyncio.Transport):
    """The connection of a reader who leaves after so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks

    def is_closing(self) -> bool:
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize("transport", [None, Connection(1)])
async def test_nobody_waits_for_a_reader_who_has_gone(
    api: Api, store: Watched, clock: FakeClock, transport: asyncio.Transport | None
) -> None:
    await api.running_run()
    notices = Notices()
    waiting = asyncio.create_task(LongPolls(store, notices, clock).wait(RUN, 20, transport))
    await store.seen.acquire()
    notices.tell(RUN)
    run = await waiting
    assert run is not None
    assert run.status == "running"


class Stepping(SqliteStore):
    """A store that another process writes to: nobody here is told of it."""

    def __init__(self, statuses: Sequence[str]) -> None:
        super().__init__()
        self._statuses = iter(statuses)

    async def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        (listed,) = await super().read_runs(query)
        status = next(self._statuses)
        return [Listed(1, listed.entity.model_copy(update={"status": status}))]


async def test_what_another_process_writes_is_seen_too(
    session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    store = Stepping(["running", "running", "failed"])
    async with DevServer(store, clock=clock) as server:
        await Api(session, server.url).running_run()
        run = await LongPolls(store, Notices(), clock).wait(RUN, 20, Connection(99))
    assert run is not None
    assert run.status == "failed"
