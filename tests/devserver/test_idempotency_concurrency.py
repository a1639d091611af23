"""Many deliveries of one write at the same time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import aiohttp

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden
from tests.devserver.api import RUN, Api, event
from tests.devserver.conftest import MakeStore
from tests.devserver.keyed import (
    UNGUARDED,
    Holders,
    batch,
    check_executed,
    check_one_truth,
    check_replay,
    check_reused,
    collect,
    each_route,
    is_replayed,
    prepare,
    retries,
    single,
)


@each_route
async def test_one_is_executed(api: Api, kind: str) -> None:
    await prepare(api)
    for expected, count in enumerate((2, 3, 5, 20), 1):
        delivery = replace(UNGUARDED[kind], key=f"{count} at once")
        answers = await asyncio.gather(*(delivery.to(api) for _ in range(count)))
        first = check_one_truth(answers)
        assert sum(answer.status == 200 and not is_replayed(answer) for answer in answers) == 1
        check_replay(await delivery.to(api), first)
        assert await retries(api) == expected


async def test_each_key_of_many_is_executed_once(api: Api) -> None:
    await prepare(api)
    kinds = (UNGUARDED["single"], UNGUARDED["flat"])
    deliveries = [replace(kinds[number % 2], key=f"k{number}") for number in range(14)]
    twice = [*deliveries, *deliveries, *deliveries]
    random.Random(5).shuffle(twice)
    await asyncio.gather(*(delivery.to(api) for delivery in twice))
    for delivery in deliveries:
        answer = await collect(api, delivery)
        assert is_replayed(answer)
    assert await retries(api) == len(deliveries)


async def test_of_two_requests_with_one_key_one_is_executed(api: Api) -> None:
    await prepare(api)
    requests = [single("step_retrying", "r", error=bytes([number])) for number in range(8)]
    answers = await asyncio.gather(*(request.to(api) for request in requests))
    (taken,) = (answer for answer in answers if answer.status == 200)
    check_executed(taken)
    for answer in answers:
        if answer is not taken:
            check_reused(answer)
    assert await retries(api) == 1


async def test_of_two_runs_each_has_its_own(api: Api) -> None:
    runs = [f"run-{number}" for number in range(5)]
    for run in runs:
        await prepare(api, run)
    deliveries = [single("step_retrying", "r", run=run, error=b"devle") for run in runs]
    await asyncio.gather(*(delivery.to(api) for delivery in deliveries * 4))
    assert [await retries(api, run) for run in runs] == [1] * 5


async def test_a_key_says_more_than_a_conflict(api: Api) -> None:
    await api.running_run()
    create = batch(*(event("step_created", f"s{number}", stepName="work") for number in range(10)))
    await asyncio.gather(*(create.to(api) for _ in range(6)))
    answer = await collect(api, create)
    # Without a key all but one would be told 409 for each event.
    assert answer.statuses == [200] * 10
    assert len(await api.log()) == 12


async def test_a_run_is_created_once(api: Api) -> None:
    created = single("run_created", deploymentId="dpl", workflowName="flow", input=b"devlin")
    answers = await asyncio.gather(*(created.to(api) for _ in range(10)))
    first = check_one_truth(answers)
    check_replay(await created.to(api), first)
    assert await api.log() == [("run_created", None)]


async def test_with_writers_that_have_no_keys(api: Api) -> None:
    await prepare(api)
    keyed, bare = UNGUARDED["single"], UNGUARDED["single"].without_key()
    answers = await asyncio.gather(*(each.to(api) for each in [keyed, bare] * 6))
    check_one_truth(answers[::2])
    assert all(answer.status == 200 and not is_replayed(answer) for answer in answers[1::2])
    assert await retries(api) == 7


async def test_one_claims(make_store: MakeStore, session: aiohttp.ClientSession) -> None:
    holders = Holders()
    async with DevServer(make_store(), hidden=Hidden(between=holders)) as server:
        api = Api(session, server.url)
        await prepare(api)
        check_one_truth(await asyncio.gather(*(UNGUARDED["single"].to(api) for _ in range(20))))
    assert [claim[:2] for claim in holders.claims] == [(RUN, "k")]
