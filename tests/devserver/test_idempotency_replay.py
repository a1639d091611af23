"""The same request again: the recorded answer, byte for byte, and nothing is executed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.legacy import mint_run_id
from eventclient.devserver.state import LogQuery, LogRow
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.wire.params import WriteParams
from tests.devserver.api import AT, FRAMES, RUN, Api, event
from tests.devserver.keyed import (
    STEP,
    Delivery,
    batch,
    busy_run,
    check_executed,
    check_replay,
    flat,
    meddle,
    single,
)
from tests.support.fake_clock import FakeClock

CREATION: dict[str, Any] = {"deploymentId": "dpl", "workflowName": "flow", "input": b"devlin"}
ATTR: dict[str, Any] = {"changes": [{"key": "a", "value": "1"}], "writer": {"type": "workflow"}}
CURSOR = "eid:evnt_00000000000000000000000002"


@pytest.fixture
async def memory_api(clock: FakeClock, session: aiohttp.ClientSession) -> AsyncIterator[Api]:
    """For long tables of what is the same with every store."""
    async with DevServer(clock=clock) as server:
        yield Api(session, server.url)


async def check_kept(api: Api, clock: FakeClock, delivery: Delivery, status: int = 200) -> None:
    """Deliver, let others change things, and deliver twice more: only the first does anything."""
    first = await delivery.to(api)
    check_executed(first, status)
    before = await api.log() if status != 404 else None
    check_replay(await delivery.to(api), first)
    if before is not None:
        assert await api.log() == before
        await meddle(api)
    clock.advance(3600)
    after = await api.log() if before is not None else None
    check_replay(await delivery.to(api), first)
    if after is not None:
        assert await api.log() == after


# -- what was taken ------------------------------------------------------------------------------

RESOLVE = WriteParams(resolve_data="all")
EVENTS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "run_started again": ("run_started", None, {}),
    "run_completed": ("run_completed", None, {"output": b"devlo"}),
    "run_failed": ("run_failed", None, {"error": b"devle"}),
    "run_cancelled": ("run_cancelled", None, {}),
    "step_created": ("step_created", "s", STEP),
    "step_started": ("step_started", "a", {}),
    "lazy step_started": ("step_started", "s", STEP),
    "step_completed": ("step_completed", "r", {"result": b"devlr"}),
    "step_failed": ("step_failed", "r", {"error": b"devle"}),
    "step_retrying": ("step_retrying", "r", {"error": b"devle", "retryAfter": AT}),
    "wait_created": ("wait_created", "w", {"resumeAt": AT}),
    "wait_completed": ("wait_completed", "v", {}),
    "hook_created": ("hook_created", "g", {"token": "other", "metadata": b"devlm"}),
    "hook_created, contested": ("hook_created", "g", {"token": f"token-{RUN}"}),
    "hook_received": ("hook_received", "h", {"payload": b"devlp"}),
    "hook_disposed": ("hook_disposed", "h", {}),
    "attr_set": ("attr_set", None, ATTR),
    "attr_set by name": ("attr_set", "at", ATTR),
}


@pytest.mark.parametrize("name", EVENTS)
async def test_an_event_over_either_route(memory_api: Api, clock: FakeClock, name: str) -> None:
    api, run = memory_api, "over-v3"
    for each in (RUN, run):
        await busy_run(api, each)
    event_type, c, data = EVENTS[name]
    if name.endswith("contested"):
        data = {**data, "token": f"token-{run}"}
    over_v3 = flat(event_type, c, run=run, data=data, remoteRefBehavior="resolve")
    first = await over_v3.to(api)
    check_executed(first)
    await meddle(api, run)
    log = await api.log(run)
    check_replay(await over_v3.to(api), first)
    assert await api.log(run) == log
    await check_kept(api, clock, single(*EVENTS[name][:2], **EVENTS[name][2]))


async def test_an_event_of_every_type_in_every_store(api: Api) -> None:
    answers = []
    for number, (event_type, c, data) in enumerate(EVENTS.values()):
        run = f"run-{number}"
        await busy_run(api, run)
        delivery = single(event_type, c, run=run, params=RESOLVE, **data)
        answers.append((run, delivery, await delivery.to(api)))
        check_executed(answers[-1][-1])
    for run, delivery, first in answers:
        log = await api.log(run)
        check_replay(await delivery.to(api), first)
        assert await api.log(run) == log


async def test_the_creation_of_a_run(api: Api, clock: FakeClock) -> None:
    await check_kept(api, clock, single("run_created", **CREATION))
    created = flat("run_created", run="over-v3", data=CREATION, remoteRefBehavior="resolve")
    first = await created.to(api)
    check_executed(first)
    assert first.value["run"]["status"] == "pending"
    assert (await api.post("run_started", run="over-v3")).status == 200
    check_replay(await created.to(api), first)


async def test_a_start_that_brings_its_run_along(api: Api, clock: FakeClock) -> None:
    await check_kept(api, clock, single("run_started", **CREATION))


async def test_a_run_whose_id_has_grown_too_old_meanwhile(
    session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    """The age of a run id matters to a creation that is executed, not to one that was."""
    run = mint_run_id(clock.wall() - timedelta(hours=23))
    async with DevServer(clock=clock, check_run_time=True) as server:
        api = Api(session, server.url)
        created = single("run_created", run=run, **CREATION)
        first = await created.to(api)
        check_executed(first)
        clock.advance(2 * 3600)
        check_replay(await created.to(api), first)


async def test_a_batch(api: Api, clock: FakeClock) -> None:
    await busy_run(api)
    pair = [event("step_created", "s", **STEP), event("step_started", "s")]
    others = [event("wait_completed", "v"), event("step_completed", "r", result=b"devlr")]
    await check_kept(api, clock, batch(*pair, *others, event("wait_created", "w", resumeAt=AT)))


async def test_a_batch_that_ends_the_run(api: Api) -> None:
    await busy_run(api)
    ends = batch(event("step_completed", "r", result=b"devlr"), event("run_completed", output=b"devlo"))
    first = await ends.to(api)
    check_executed(first)
    log = await api.log()
    check_replay(await ends.to(api), first)
    assert await api.log() == log


async def test_a_batch_that_is_refused_in_part(api: Api) -> None:
    await busy_run(api)
    delivery = batch(
        event("step_created", "a", **STEP),
        event("step_created", "s", **STEP),
        event("wait_completed", "nobody"),
        event("step_started", "v"),
        event("step_retrying", "r", error=b"devle"),
    )
    first = await delivery.to(api)
    assert first.statuses == [409, 200, 404, 404, 200]
    check_replay(await delivery.to(api), first)
    await meddle(api)
    log = await api.log()
    check_replay(await delivery.to(api), first)
    assert await api.log() == log


async def test_a_batch_of_which_nothing_was_taken(api: Api) -> None:
    await busy_run(api)
    delivery = batch(event("step_created", "a", **STEP), event("wait_completed", "soon"))
    first = await delivery.to(api)
    assert first.statuses == [409, 404]
    # What was missing comes, and the answer stays.
    assert (await api.post("wait_created", "soon", resumeAt=AT)).status == 200
    check_replay(await delivery.to(api), first)
    assert (await api.post("wait_completed", "soon")).status == 200


async def test_payloads_come_back_to_those_who_asked_for_them(api: Api) -> None:
    await busy_run(api)
    post = single("step_created", "s", params=RESOLVE, key="1", **STEP)
    first = await post.to(api)
    check_replay(await post.to(api), first)
    both = flat("step_completed", "r", data={"result": b"devlr"}, remoteRefBehavior="resolve", key="2")
    answer = await both.to(api)
    assert answer.value["event"]["eventData"] == {"result": b"devlr"}
    assert answer.value["step"]["output"] == b"devlr"
    await meddle(api)
    check_replay(await both.to(api), answer)
    check_replay(await post.to(api), first)


# -- answers that hold a part of the log -----------------------------------------------------------


async def test_a_start_that_is_answered_with_the_log(api: Api) -> None:
    await api.pending_run()
    await api.all_taken([("attr_set", None, ATTR)])
    start = single("run_started", headers=FRAMES)
    first = await start.to(api)
    assert [row["eventType"] for row in first.events] == ["run_created", "attr_set", "run_started"]
    assert first.end["hasMore"] is False
    await busy_log(api)
    log = await api.log()
    check_replay(await start.to(api), first)
    assert await api.log() == log


async def busy_log(api: Api) -> None:
    """More events, with payloads, behind those there are, and the end of the run."""
    for c in ("x", "y"):
        await api.post("step_created", c, **STEP)
    await meddle(api)


async def test_a_second_start_is_answered_with_the_log_as_it_was_then(api: Api) -> None:
    await busy_run(api)
    again = single("run_started", headers=FRAMES)
    first = await again.to(api)
    assert len(first.events) == len(await api.log())
    await meddle(api)
    check_replay(await again.to(api), first)


ASKED = [
    WriteParams(since_cursor=CURSOR),
    WriteParams(since_cursor=CURSOR, event_count=1),
    *(WriteParams(event_count=count) for count in (0, 2, 99)),
]


@pytest.mark.parametrize("event_type", ["wait_created", "step_retrying", "run_started"])
async def test_an_answer_with_what_the_caller_had_not_seen(memory_api: Api, event_type: str) -> None:
    api = memory_api
    await busy_run(api)
    answers = []
    for key, params in enumerate(ASKED):
        c = {"wait_created": f"w{key}", "step_retrying": "r"}.get(event_type)
        data: dict[str, Any] = {"wait_created": {"resumeAt": AT}}.get(event_type, {})
        delivery = single(event_type, c, key=str(key), params=params, **data)
        answers.append((delivery, await delivery.to(api)))
        check_executed(answers[-1][1])
        if params.since_cursor is not None:
            assert answers[-1][1].value["events"][0]["eventType"] == "step_created"
    await meddle(api)
    log = await api.log()
    for delivery, first in answers:
        check_replay(await delivery.to(api), first)
    assert await api.log() == log


async def test_a_part_of_the_log_in_every_store(api: Api) -> None:
    await busy_run(api)
    params = WriteParams(since_cursor=CURSOR, resolve_data="all")
    delivery = single("step_created", "s", params=params, **STEP)
    first = await delivery.to(api)
    assert [each["eventType"] for each in first.value["events"]][-1] == "step_created"
    await meddle(api)
    check_replay(await delivery.to(api), first)


class Overtaken(SqliteStore):
    """A store in which others write to the log just before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Callable[[], Awaitable[object]]] = []

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        if self.others:
            await self.others.pop()()
        return await super().read_log(query)


@pytest.mark.parametrize("headers", [{}, FRAMES], ids=["delta", "log"])
async def test_the_first_answer_holds_no_more_than_later_ones(
    session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    store = Overtaken()
    async with DevServer(store) as server:
        api = Api(session, server.url)
        await api.pending_run()
        start = single("run_started", params=WriteParams(since_cursor=CURSOR), headers=headers)
        store.others.append(lambda: api.post("step_created", "s", **STEP))
        first = await start.to(api)
        assert store.others == []
        assert b"step_created" not in first.body
        check_replay(await start.to(api), first)
        assert len(await api.log()) == 3


async def test_a_delivery_that_is_answered_with_the_log(api: Api) -> None:
    await busy_run(api)
    params = WriteParams(resume_id="res", resume_payload_digest="ab" * 32)
    received = single("hook_received", "h", params=params, headers=FRAMES, payload=b"devlp")
    first = await received.to(api)
    assert [row["eventType"] for row in first.events][-1] == "hook_received"
    await meddle(api)
    check_replay(await received.to(api), first)
    # The resume id makes it safe to repeat by itself: another request, and so another answer.
    other = await replace(received, key="other").to(api)
    assert other.status in (200, 404)
    assert ("hook_received", "h") in await api.log()
