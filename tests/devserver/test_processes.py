"""Several server processes on one PostgreSQL database are one server to those who talk to them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
import pytest_asyncio

from tests.cli.test_command import run as run_command
from tests.devserver.api import Api, event
from tests.devserver.conftest import empty
from tests.support.postgres_cluster import Cluster
from tests.support.server_process import server_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROCESSES = 3
WRITERS = 18
BATCHES = 12


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(shared_dsn: str) -> AsyncIterator[list[Api]]:
    """Several processes that have opened the database at once."""
    await empty(shared_dsn)
    async with AsyncExitStack() as stack:
        urls = await asyncio.gather(
            *(stack.enter_async_context(server_process("--dsn", shared_dsn)) for _ in range(PROCESSES))
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield [Api(session, url) for url in urls]


async def write(api: Api, run: str, writer: int) -> dict[str, str]:
    """Batch after batch of pairs; the slot of each event that was taken."""
    ids: dict[str, str] = {}
    for number in range(BATCHES):
        names = [f"w{writer}-{number}-{index}" for index in range(1 + number % 4)]
        events = [
            each
            for name in names
            for each in (event("step_created", name, stepName="n"), event("step_started", name))
        ]
        answer = await api.batch(*events, run=run)
        assert answer.statuses == [200] * len(events)
        for result in answer.results:
            of = result["event"]
            ids[f"{of['eventType']} {of['correlationId']}"] = of["eventId"]
    return ids


async def read(api: Api, run: str) -> dict[str, str]:
    answer = await api.get(f"/runs/{run}/events?returnAll=true")
    rows = answer.events
    assert [int(row["eventId"].removeprefix("evnt_")) for row in rows] == list(range(1, len(rows) + 1))
    return {f"{row['eventType']} {row.get('correlationId')}": row["eventId"] for row in rows}


async def test_many_writers_through_all_of_them_leave_one_dense_log(servers: list[Api]) -> None:
    await servers[0].running_run("many")
    turns = itertools.cycle(servers)
    written = await asyncio.gather(*(write(next(turns), "many", number) for number in range(WRITERS)))
    answered: dict[str, str] = {}
    for ids in written:
        assert not ids.keys() & answered.keys()
        answered |= ids
    for api in servers:
        log = await read(api, "many")
        assert {key: slot for key, slot in log.items() if not key.startswith("run_")} == answered
        assert len(log) == len(answered) + 2


async def test_each_sees_at_once_what_another_has_answered(servers: list[Api]) -> None:
    run = "turns"
    await servers[0].running_run(run)
    for number in range(10):
        writer, reader = servers[number % PROCESSES], servers[(number + 1) % PROCESSES]
        assert (await writer.post("step_created", f"s{number}", run=run, stepName="n")).status == 200
        assert (await reader.post("step_created", f"s{number}", run=run, stepName="n")).status == 409
        assert (await reader.post("step_started", f"s{number}", run=run)).status == 200
        assert len(await writer.log(run)) == 4 + 2 * number


async def test_the_same_batch_through_all_of_them_is_taken_once(servers: list[Api]) -> None:
    await servers[0].running_run("once")
    events = [event("step_created", f"s{number}", stepName="n") for number in range(10)]
    answers = await asyncio.gather(*(api.batch(*events, run="once") for api in servers * 3))
    assert sorted(answer.statuses for answer in answers) == [[200] * 10] + [[409] * 10] * 8
    assert len(await servers[0].log("once")) == 12


async def test_a_database_that_cannot_be_used_ends_with_2(cluster: Cluster) -> None:
    dsn = cluster.dsn("no-such-database", password="do-not-tell")
    _, err = await run_command("serve", "--port", "0", "--dsn", dsn, code=2)
    assert 'database "no-such-database" does not exist' in err
    assert "do-not-tell" not in err
    _, err = await run_command("serve", "--port", "0", "--dsn", dsn, "--db", "x.db", code=2)
    assert "exclude each other" in err


async def test_the_database_can_be_named_by_the_environment(cluster: Cluster) -> None:
    dsn = cluster.dsn("no-such-database")
    _, err = await run_command("serve", "--port", "0", code=2, EVENTCLIENT_SERVE_DSN=dsn)
    assert 'database "no-such-database" does not exist' in err
