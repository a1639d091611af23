"""Refusals are recorded as well, also when their reason has gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from tests.devserver.api import AT, Api, event
from tests.devserver.keyed import (
    STEP,
    UNGUARDED,
    batch,
    busy_run,
    check_executed,
    check_replay,
    each_route,
    flat,
    prepare,
    retries,
    single,
)
from tests.support.fake_clock import FakeClock


@pytest.fixture
async def memory_api(clock: FakeClock, session: aiohttp.ClientSession) -> AsyncIterator[Api]:
    """For long tables of what is the same with every store."""
    async with DevServer(clock=clock) as server:
        yield Api(session, server.url)


LATE = AT + timedelta(days=3650)


async def ended(api: Api) -> None:
    await busy_run(api)
    assert (await api.post("run_completed", output=b"devlo")).status == 200


async def delayed(api: Api) -> None:
    await busy_run(api)
    assert (await api.post("step_retrying", "r", error=b"devle", retryAfter=LATE)).status == 200


Start = Callable[[Api], Awaitable[None]]
REFUSALS: dict[str, tuple[Start, int, str, str, str | None, dict[str, Any]]] = {
    "conflict": (busy_run, 409, "conflict", "step_created", "a", STEP),
    "no step": (busy_run, 404, "step-not-found", "step_completed", "nobody", {}),
    "no hook": (busy_run, 404, "hook-not-found", "hook_received", "nobody", {"payload": b"p"}),
    "ended": (ended, 410, "run-expired", "step_started", "a", {}),
    "too early": (delayed, 425, "too-early", "step_started", "r", {}),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_over_either_route(memory_api: Api, clock: FakeClock, name: str) -> None:
    api = memory_api
    start, status, code, event_type, c, data = REFUSALS[name]
    await start(api)
    deliveries = [single(event_type, c, key="1", **data), flat(event_type, c, key="2", data=data)]
    answers = [await delivery.to(api) for delivery in deliveries]
    log = await api.log()
    # The reason for the refusal goes, where it can.
    clock.advance(3600)
    await api.post("step_created", "nobody", **STEP)
    await api.post("hook_created", "nobody", token="late")
    grown = await api.log()
    assert (len(grown) > len(log)) is (name != "ended")
    for delivery, first in zip(deliveries, answers, strict=True):
        assert (first.status, first.code) == (status, code)
        check_executed(first, status)
        assert ("Retry-After" in first.headers) is (status == 425)
        check_replay(await delivery.to(api), first)
    assert await api.log() == grown


async def test_a_wait_that_is_over_is_not_noticed_by_a_key(api: Api, clock: FakeClock) -> None:
    await busy_run(api)
    until = clock.wall() + timedelta(seconds=30)
    await api.post("step_retrying", "r", error=b"devle", retryAfter=until)
    early = single("step_started", "r")
    first = await early.to(api)
    assert (first.status, first.headers["Retry-After"]) == (425, "30")
    clock.advance(31)
    check_replay(await early.to(api), first)
    check_executed(await single("step_started", "r", key="another").to(api))


@each_route
async def test_a_run_that_was_not_there(api: Api, kind: str) -> None:
    delivery = UNGUARDED[kind]
    first = await delivery.to(api)
    check_executed(first, 404)
    assert first.code == "run-not-found"
    await prepare(api)
    check_replay(await delivery.to(api), first)
    assert await retries(api) == 0
    assert (await replace(delivery, key="another").to(api)).status == 200
    assert await retries(api) == 1


async def test_a_run_that_takes_no_batches(api: Api) -> None:
    await api.running_run(spec=5)
    delivery = batch(event("step_created", "a", **STEP), event("step_created", "b", **STEP))
    for _ in range(2):
        answer = await delivery.to(api)
        assert (answer.status, answer.code) == (400, "batch-requires-slot-identity")
    assert len(await api.log()) == 2
