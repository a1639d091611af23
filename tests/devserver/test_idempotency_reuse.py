"""What a key stands for: one request to one run, executed once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.wire.params import WriteParams
from tests.devserver.api import AT, RUN, Api, event
from tests.devserver.keyed import (
    RETRYING,
    STEP,
    UNGUARDED,
    batch,
    busy_run,
    check_executed,
    check_replay,
    check_reused,
    each_route,
    flat,
    prepare,
    retries,
    single,
)
from tests.support.fake_clock import FakeClock

LATE = AT + timedelta(days=3650)
ATTR: dict[str, Any] = {"changes": [{"key": "a", "value": "1"}], "writer": {"type": "workflow"}}


@pytest.fixture
async def memory_api(clock: FakeClock, session: aiohttp.ClientSession) -> AsyncIterator[Api]:
    """For long tables of what is the same with every store."""
    async with DevServer(clock=clock) as server:
        yield Api(session, server.url)


# -- what would be doubled -----------------------------------------------------------------------


@each_route
async def test_what_nothing_else_guards_has_one_effect_with_a_key(api: Api, kind: str) -> None:
    await prepare(api)
    delivery = UNGUARDED[kind]
    for _ in range(2):
        check_executed(await delivery.without_key().to(api))
    assert await retries(api) == 2
    first = await delivery.to(api)
    check_executed(first)
    for _ in range(3):
        check_replay(await delivery.to(api), first)
    assert await retries(api) == 3
    # Who sends no key, or another, writes another time.
    for other in (delivery.without_key(), replace(delivery, key="another")):
        check_executed(await other.to(api))
    assert await retries(api) == 5


@pytest.mark.parametrize(
    ("event_type", "c", "data"),
    [
        ("step_started", "a", {}),
        ("hook_received", "h", {"payload": b"devlp"}),
        ("attr_set", None, ATTR),
    ],
)
async def test_so_has_every_other_type_that_is_taken_again(
    memory_api: Api, event_type: str, c: str | None, data: dict[str, Any]
) -> None:
    api = memory_api
    await busy_run(api)
    delivery = single(event_type, c, **data)
    for _ in range(2):
        check_executed(await delivery.without_key().to(api))
    before = (await api.log()).count((event_type, c))
    first = await delivery.to(api)
    check_replay(await delivery.to(api), first)
    assert (await api.log()).count((event_type, c)) == before + 1
    if event_type == "step_started":
        assert first.value["step"]["attempt"] == 3


# -- a key stands for one request ------------------------------------------------------------------


async def test_a_key_belongs_to_its_run(api: Api) -> None:
    other = "wrun_other"
    for run in (RUN, other):
        await prepare(api, run)
    answers = [await single("step_retrying", "r", run=run, error=b"devle").to(api) for run in (RUN, other)]
    for answer in answers:
        check_executed(answer)
    assert [await retries(api, run) for run in (RUN, other)] == [1, 1]
    for run, answer in zip((RUN, other), answers, strict=True):
        check_replay(await single("step_retrying", "r", run=run, error=b"devle").to(api), answer)


@each_route
async def test_another_body_or_route_is_no_repeat(api: Api, kind: str) -> None:
    await prepare(api)
    first = await UNGUARDED[kind].to(api)
    check_executed(first)
    others = [delivery for name, delivery in UNGUARDED.items() if name != kind]
    others += {
        "single": [
            single("step_retrying", "r", error=b"devlf"),
            single("step_retrying", "r", error=b"devle", at=LATE),
            single("step_retrying", "r", error=b"devle", params=WriteParams(event_count=1)),
        ],
        "batch": [batch(RETRYING), batch(event("wait_completed", "nobody"), RETRYING)],
        "flat": [flat("step_retrying", "r", data={"error": b"devlf"})],
    }[kind]
    for other in others:
        check_reused(await other.to(api))
    assert await retries(api) == 1
    check_replay(await UNGUARDED[kind].to(api), first)


async def test_the_same_bytes_over_another_route_are_no_repeat(api: Api) -> None:
    await prepare(api)
    alone = batch(RETRYING)
    first = await alone.to(api)
    check_executed(first)
    as_single = replace(alone, path=f"/v4/runs/{RUN}/events/step_retrying")
    check_reused(await as_single.to(api))
    check_reused(await replace(as_single, path=f"/v4/runs/{RUN}/events").to(api))
    assert await retries(api) == 1


async def test_the_two_paths_of_single_posts_are_one_route(api: Api) -> None:
    await prepare(api)
    named = UNGUARDED["single"]
    first = await named.to(api)
    check_replay(await replace(named, path=f"/v4/runs/{RUN}/events").to(api), first)
    assert await retries(api) == 1


async def test_a_refusal_keeps_its_key_as_well(api: Api) -> None:
    await busy_run(api)
    first = await single("step_created", "a", **STEP).to(api)
    check_executed(first, 409)
    check_reused(await single("step_created", "new", **STEP).to(api))
    assert ("step_created", "new") not in await api.log()


async def test_any_key_is_kept(api: Api) -> None:
    await prepare(api)
    keys = [r"a\"b", r"\\", "#" + "0" * 64, "k" * 255, "%00", "'; --", " "]
    deliveries = [replace(UNGUARDED["single"], key=key) for key in keys]
    answers = [await delivery.to(api) for delivery in deliveries]
    for delivery, first in zip(deliveries, answers, strict=True):
        check_executed(first)
        check_replay(await delivery.to(api), first)
    assert await retries(api) == len(keys)


async def test_for_any_run(api: Api) -> None:
    for run in ("wrun \xe9 1", "r" * 256, "a/b", "#"):
        await prepare(api, run)
        delivery = single("step_retrying", "r", run=run, error=b"devle")
        first = await delivery.to(api)
        check_executed(first)
        check_replay(await delivery.to(api), first)
        assert await retries(api, run) == 1
