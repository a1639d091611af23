"""Keys with several server processes on one PostgreSQL database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import aiohttp
import pytest
import pytest_asyncio

from tests.devserver.api import Api, event
from tests.devserver.conftest import empty
from tests.devserver.keyed import (
    batch,
    check_one_truth,
    check_replay,
    check_reused,
    collect,
    flat,
    prepare,
    single,
)
from tests.support.server_process import server_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRITES = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(shared_dsn: str) -> AsyncIterator[list[Api]]:
    """Two processes that have opened one database."""
    await empty(shared_dsn)
    async with AsyncExitStack() as stack:
        arguments = ("--dsn", shared_dsn, "--deadline", "60", "--lease", "90", "--key-retention", "600")
        urls = await asyncio.gather(
            *(stack.enter_async_context(server_process(*arguments)) for _ in range(2))
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield [Api(session, url) for url in urls]


async def test_each_write_that_is_delivered_to_both_is_one(servers: list[Api]) -> None:
    run = "both"
    await prepare(servers[0], run)
    singles = [single("step_retrying", "r", run=run, key=f"s{n}", error=b"devle") for n in range(WRITES)]
    flats = [
        flat("step_retrying", "r", run=run, key=f"f{n}", data={"error": b"devle"}) for n in range(WRITES)
    ]
    retrying = event("step_retrying", "r", error=b"devle")
    batches = [batch(retrying, event("wait_completed", "w"), run=run, key=f"b{n}") for n in range(WRITES)]
    writes = [*singles, *flats, *batches]
    deliveries = [(api, write) for write in writes for api in servers * 2]
    random.Random(1).shuffle(deliveries)
    answers = await asyncio.gather(*(write.to(api) for api, write in deliveries))
    for write in writes:
        given = [answer for (_, each), answer in zip(deliveries, answers, strict=True) if each is write]
        settled = [await collect(api, write) for api in servers]
        check_replay(settled[0], check_one_truth([*given, settled[0]]))
        check_replay(settled[1], settled[0])
    for api in servers:
        assert (await api.log(run)).count(("step_retrying", "r")) == len(writes)


async def test_of_two_requests_with_one_key_one_is_taken(servers: list[Api]) -> None:
    run = "reused"
    await prepare(servers[0], run)
    requests = [single("step_retrying", "r", run=run, error=bytes([n])) for n in range(2)]
    answers = await asyncio.gather(*(each.to(api) for each, api in zip(requests, servers, strict=True)))
    taken = [answer for answer in answers if answer.status == 200]
    assert len(taken) == 1
    check_reused(next(answer for answer in answers if answer is not taken[0]))
    assert (await servers[0].log(run)).count(("step_retrying", "r")) == 1


async def test_a_run_that_both_create_at_once_is_created_once(servers: list[Api]) -> None:
    created = single("run_created", run="new", deploymentId="d", workflowName="w", input=b"devlin")
    answers = await asyncio.gather(*(created.to(api) for api in servers * 5))
    first = check_one_truth(answers)
    for api in servers:
        check_replay(await created.to(api), first)
        assert await api.log("new") == [("run_created", None)]
        other = replace(created, key="another")
        assert (await other.to(api)).status == 409
