"""Faults over a real connection: what the caller sees, and what was committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.client.client import EventClient
from eventclient.client.options import ClientOptions
from eventclient.clock import Clock
from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.errors import ConfigurationError
from eventclient.model.events import StepCreated
from eventclient.model.outcomes import Outcome
from eventclient.model.parsing import parse_event
from eventclient.wire.codec import MalformedError, decode
from eventclient.wire.frames import FrameDecoder
from tests.devserver.api import AT, RUN, Api, event, frame
from tests.devserver.raw import connected, exchange, head, read_all, request
from tests.support.fake_clock import FakeClock

BATCH = f"/api/v4/runs/{RUN}/events/batch"
LIST = f"/api/v4/runs/{RUN}/events"
WAITS = b"".join(frame(event("wait_created", name, resumeAt=AT), batch=True) for name in ("w1", "w2"))
ONLY_BATCHES = {"route": "batch"}


class StoppedClock(FakeClock):
    """A clock on which a sleep lasts for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.asleep.set()
        await asyncio.Event().wait()


class Misbehaving:
    """A server with faults, and one run that is running.

    Attributes:
        ended: a batch has been dealt with.
    """

    def __init__(self, server: DevServer, api: Api, ended: asyncio.Event) -> None:
        self.server = server
        self.api = api
        self.url = server.url
        self.ended = ended

    async def count(self) -> int:
        """How many events the run has."""
        return len(await self.api.log())

    async def report(self) -> dict[str, Any]:
        return (await self.api.request("GET", "/__faults")).json  # type: ignore[no-any-return]


@asynccontextmanager
async def _misbehaving(
    session: aiohttp.ClientSession, rules: tuple[dict[str, Any], ...], clock: Clock | None
) -> AsyncIterator[Misbehaving]:
    script = FaultScript.model_validate({"rule": list(rules)})
    ended = asyncio.Event()

    @web.middleware
    async def tell(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            if request.path.endswith("/batch"):
                ended.set()

    async with DevServer(faults=script, clock=clock or FakeClock(), middlewares=[tell]) as server:
        api = Api(session, server.url)
        await api.running_run()
        yield Misbehaving(server, api, ended)


@pytest.fixture
def misbehaving(session: aiohttp.ClientSession) -> Any:
    def start(*rules: dict[str, Any], clock: Clock | None = None) -> AbstractAsyncContextManager[Misbehaving]:
        return _misbehaving(session, rules, clock)

    return start


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [False, True])
async def test_refuse(misbehaving: Any, commit: bool) -> None:
    rule = {"fault": "refuse", "status": 503, "code": "down", "message": "away", "headers": {"X-A": "b"}}
    async with misbehaving({**rule, **ONLY_BATCHES, "commit": commit, "times": 1}) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert (answer.status, answer.json) == (503, {"message": "away", "code": "down"})
        assert answer.headers["X-A"] == "b"
        assert await it.count() == (4 if commit else 2)
        assert (await it.api.send(f"/runs/{RUN}/events/batch", WAITS)).status == 200


async def test_refuse_with_a_body_of_its_own(misbehaving: Any) -> None:
    rule = {"fault": "refuse", "status": 412, "hex": "a0", "headers": {"Content-Type": "application/cbor"}}
    async with misbehaving({**rule, **ONLY_BATCHES}) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert (answer.status, answer.body, answer.content_type) == (412, b"\xa0", "application/cbor")


@pytest.mark.parametrize("retry_after", [None, "2", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_throttle(misbehaving: Any, retry_after: str | None) -> None:
    rule = {"fault": "throttle", **ONLY_BATCHES}
    async with misbehaving(rule if retry_after is None else {**rule, "retry_after": retry_after}) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert (answer.status, answer.code) == (429, "throttled")
        assert answer.headers.get("Retry-After") == retry_after
        assert await it.count() == 2


@pytest.mark.parametrize("status", [429, 403])
async def test_challenge(misbehaving: Any, status: int) -> None:
    async with misbehaving(
        {"fault": "challenge", "status": status, "retry_after": "9", **ONLY_BATCHES}
    ) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert (answer.status, answer.headers["x-vercel-mitigated"]) == (status, "challenge")
        assert answer.headers["Retry-After"] == "9"
        assert answer.content_type == "text/html"
        assert answer.body.startswith(b"<!DOCTYPE html>")
        assert await it.count() == 2


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [False, True])
async def test_delay(misbehaving: Any, commit: bool) -> None:
    clock = FakeClock()
    rule = {"fault": "delay", "seconds": 1.5, "commit": commit, **ONLY_BATCHES}
    async with misbehaving(rule, {"fault": "delay", "seconds": 2, **ONLY_BATCHES}, clock=clock) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert answer.statuses == [200, 200]
        assert clock.sleeps == ([2, 1.5] if commit else [1.5, 2])


async def test_a_delayed_request_goes_on_without_its_caller(misbehaving: Any) -> None:
    release, asleep = asyncio.Event(), asyncio.Event()

    class HeldClock(FakeClock):
        async def sleep(self, delay_s: float) -> None:
            asleep.set()
            await release.wait()

    async with misbehaving({"fault": "delay", "seconds": 5, **ONLY_BATCHES}, clock=HeldClock()) as it:
        async with connected(it.url) as (_, writer):
            writer.write(request("POST", BATCH, WAITS))
            await asleep.wait()
        release.set()
        await it.ended.wait()
        assert await it.count() == 4


@pytest.mark.parametrize("commit", [False, True])
async def test_stall_ends_after_its_time(misbehaving: Any, commit: bool) -> None:
    clock = FakeClock()
    rule = {"fault": "stall", "seconds": 30, "commit": commit, **ONLY_BATCHES}
    async with misbehaving(rule, clock=clock) as it:
        answer = await exchange(it.url, request("POST", BATCH, WAITS))
        assert (answer.data, answer.reset) == (b"", False)
        assert clock.sleeps == [30]
        assert await it.count() == (4 if commit else 2)


async def test_stall_ends_when_the_caller_goes(misbehaving: Any) -> None:
    clock = StoppedClock()
    async with misbehaving({"fault": "stall", **ONLY_BATCHES}, clock=clock) as it:
        async with connected(it.url) as (_, writer):
            writer.write(request("POST", BATCH, WAITS))
            await clock.asleep.wait()
        await it.ended.wait()
        assert await it.count() == 2


@pytest.mark.parametrize("rule", [{"fault": "stall"}, {"fault": "delay", "seconds": 60}])
async def test_waits_end_when_the_server_closes(session: aiohttp.ClientSession, rule: dict[str, Any]) -> None:
    clock = StoppedClock()
    script = FaultScript.model_validate({"rule": [rule]})
    async with DevServer(faults=script, clock=clock) as server:
        place = connected(server.url)
        reader, writer = await place.__aenter__()
        writer.write(request("POST", BATCH, WAITS))
        await clock.asleep.wait()
    answer = await read_all(reader)
    assert answer.data == b""
    await place.__aexit__(None, None, None)


# -- lost answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("commit", [False, True])
async def test_drop(misbehaving: Any, commit: bool, reset: bool) -> None:
    async with misbehaving({"fault": "drop", "commit": commit, "reset": reset, **ONLY_BATCHES}) as it:
        answer = await exchange(it.url, request("POST", BATCH, WAITS))
        assert (answer.data, answer.reset) == (b"", reset)
        assert await it.count() == (4 if commit else 2)


async def test_cut_the_answer_to_a_post(misbehaving: Any) -> None:
    async with misbehaving({"fault": "cut", "at_bytes": 7, "times": 1, **ONLY_BATCHES}) as it:
        answer = await exchange(it.url, request("POST", BATCH, WAITS))
        assert answer.status == 200
        assert len(answer.body) == 7
        assert answer.body == b"\xa1gresult"[:7]
        assert int(answer.head["content-length"]) > 200
        assert await it.count() == 4


@pytest.mark.parametrize("at_bytes", [0, 1, 100, -1, -100])
async def test_cut_a_log(misbehaving: Any, at_bytes: int) -> None:
    async with misbehaving({"fault": "cut", "at_bytes": at_bytes, "route": "list", "times": 1}) as it:
        answer = await exchange(it.url, request("GET", LIST))
        whole = await exchange(it.url, request("GET", LIST))
        assert answer.head["content-length"] == whole.head["content-length"]
        assert answer.body == whole.body[:at_bytes]
        decoder = FrameDecoder()
        assert len(list(decoder.receive_data(answer.body))) < 3


async def test_cut_behind_the_end_of_an_answer_only_ends_the_connection(misbehaving: Any) -> None:
    async with misbehaving({"fault": "cut", "at_bytes": 1_000_000, "route": "list"}) as it:
        answer = await exchange(it.url, head("GET", LIST))
        assert len(answer.body) == int(answer.head["content-length"])


@pytest.mark.parametrize("fault", ["drop", "stall", "garbage"])
async def test_a_live_read_is_lost_before_it_begins(misbehaving: Any, fault: str) -> None:
    rule = {"fault": fault, "commit": True, "route": "stream-read"}
    async with misbehaving({**rule, "content": "short"} if fault == "garbage" else rule) as it:
        await it.api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=b"chunk")
        answer = await exchange(it.url, head("GET", f"/api/v3/runs/{RUN}/stream/s"))
        assert answer.data == b""


@pytest.mark.parametrize(
    "rule", [{"fault": "refuse", "status": 503}, {"fault": "garbage", "content": "wrong"}]
)
async def test_a_live_read_is_answered_with_something_else(misbehaving: Any, rule: dict[str, Any]) -> None:
    async with misbehaving({**rule, "commit": True, "route": "stream-read"}) as it:
        await it.api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=b"chunk")
        answer = await exchange(it.url, request("GET", f"/api/v3/runs/{RUN}/stream/s"))
        assert answer.status == rule.get("status", 200)
        assert "transfer-encoding" not in answer.head
        assert len(answer.body) == int(answer.head["content-length"])


async def test_a_live_read_is_cut(misbehaving: Any) -> None:
    async with misbehaving({"fault": "cut", "at_bytes": 6, "route": "stream-read", "times": 1}) as it:
        for chunk in (b"abcd", b"efgh"):
            await it.api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=chunk)
        answer = await exchange(it.url, head("GET", f"/api/v3/runs/{RUN}/stream/s"))
        assert answer.status == 200
        assert not answer.data.endswith(b"0\r\n\r\n")
        async with connected(it.url) as (reader, writer):
            writer.write(head("GET", f"/api/v3/runs/{RUN}/stream/s"))
            whole = await reader.readuntil(b"efgh")
        content = unchunked(answer.body)
        assert len(content) == 6
        assert unchunked(whole.partition(b"\r\n\r\n")[2] + b"\r\n").startswith(content)


def unchunked(data: bytes) -> bytes:
    content = bytearray()
    while data:
        size, _, rest = data.partition(b"\r\n")
        content += rest[: int(size, 16)]
        data = rest[int(size, 16) + 2 :]
    return bytes(content)


# -- wrong answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "content_type", "body"),
    [
        ({}, "text/plain", b"this is no answer"),
        ({"content": "empty"}, "application/cbor", b""),
        ({"content": "wrong"}, "application/cbor", b"\xa1junexpected\xf5"),
        ({"hex": "a0ff"}, "application/cbor", b"\xa0\xff"),
    ],
)
@pytest.mark.parametrize("commit", [False, True])
async def test_garbage(
    misbehaving: Any, commit: bool, rule: dict[str, Any], content_type: str, body: bytes
) -> None:
    async with misbehaving({"fault": "garbage", "commit": commit, **rule, **ONLY_BATCHES}) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert (answer.status, answer.content_type, answer.body) == (200, content_type, body)
        if not rule:
            with pytest.raises(MalformedError):
                decode(answer.body)
        assert await it.count() == (4 if commit else 2)


async def test_garbage_in_place_of_a_log_claims_to_be_one(misbehaving: Any) -> None:
    async with misbehaving({"fault": "garbage", "content": "wrong", "route": "list"}) as it:
        answer = await it.api.get(f"/runs/{RUN}/events")
        assert answer.content_type == "application/vnd.workflow.v4-frames"


async def test_short_results_lack_the_last_one(misbehaving: Any) -> None:
    async with misbehaving({"fault": "garbage", "content": "short", "route": ["batch", "single"]}) as it:
        answer = await it.api.send(f"/runs/{RUN}/events/batch", WAITS)
        assert [result["event"]["correlationId"] for result in answer.results] == ["w1"]
        single = await it.api.post("wait_created", "w3", resumeAt=AT)
        assert set(single.value) == {"wait"}
        assert await it.count() == 5
        refused = await it.api.post("wait_created", "w3", resumeAt=AT)
        assert (refused.status, refused.code) == (409, "conflict")


async def test_a_short_log_lacks_its_end_frame(misbehaving: Any) -> None:
    async with misbehaving({"fault": "garbage", "content": "short", "route": "list", "times": 1}) as it:
        answer = await it.api.get(f"/runs/{RUN}/events")
        assert [row["eventType"] for row in answer.events] == ["run_created", "run_started"]
        assert await it.count() == 2


@pytest.mark.parametrize(("answer", "statuses"), [("first", [200, 200]), ("second", [409, 409])])
async def test_twice(misbehaving: Any, answer: str, statuses: list[int]) -> None:
    async with misbehaving({"fault": "twice", "answer": answer, **ONLY_BATCHES}) as it:
        assert (await it.api.send(f"/runs/{RUN}/events/batch", WAITS)).statuses == statuses
        assert await it.count() == 4


@pytest.mark.parametrize("answer", ["first", "second"])
async def test_both_deliveries_are_told_of(session: aiohttp.ClientSession, answer: str) -> None:
    lines: list[str] = []
    script = FaultScript.parse(f'[[rule]]\nfault = "twice"\nanswer = "{answer}"\nroute = "batch"\nnth = 1')
    async with DevServer(faults=script, access_log=lines.append) as server:
        api = Api(session, server.url)
        await api.running_run()
        for _ in range(2):
            await api.send(f"/runs/{RUN}/events/batch", WAITS)
        part = (await api.request("GET", f"/__runs/{RUN}")).json
    once, plain = (json.loads(line)["events"] for line in lines[2:4])
    assert [(told["status"], told.get("slot"), told["delivery"]) for told in once] == [
        (200, 3, 1),
        (200, 4, 1),
        (409, None, 2),
        (409, None, 2),
    ]
    # The number says nothing where there is but one.
    assert [(told["status"], "delivery" in told) for told in plain] == [(409, False)] * 2
    shown = part["requests"][2]
    assert [(told["slot"], told["delivery"]) for told in shown["events"]] == [
        (3, 1),
        (4, 1),
        (None, 2),
        (None, 2),
    ]
    assert shown["marks"] == {"conflict": 2, "fault": 1}
    assert part["tally"]["batches"] == 2


async def test_one_event_twice_is_no_batch(session: aiohttp.ClientSession) -> None:
    script = FaultScript.parse('[[rule]]\nfault = "twice"\nevent_type = "wait_created"')
    async with DevServer(faults=script) as server:
        api = Api(session, server.url)
        await api.running_run()
        await api.post("wait_created", "w", resumeAt=AT)
        part = (await api.request("GET", f"/__runs/{RUN}")).json
    assert [told["delivery"] for told in part["requests"][2]["events"]] == [1, 2]
    assert "batches" not in part["tally"]


@pytest.mark.parametrize("answer", ["first", "second"])
async def test_a_live_read_twice_is_one(misbehaving: Any, answer: str) -> None:
    async with misbehaving({"fault": "twice", "answer": answer, "route": "stream-read"}) as it:
        await it.api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=b"chunk")
        await it.api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", headers={"X-Stream-Done": "true"})
        read = await it.api.request("GET", f"/api/v3/runs/{RUN}/stream/s")
        assert read.body.count(b"chunk") == 1


# -- selection and the report ------------------------------------------------------------------


async def test_rules_see_run_and_event_types_of_every_kind_of_post(misbehaving: Any) -> None:
    async with misbehaving(
        {"fault": "throttle", "event_type": "wait_created"},
        {"fault": "challenge", "run": "other*"},
    ) as it:
        assert (await it.api.send(f"/runs/{RUN}/events/batch", WAITS)).status == 429
        assert (await it.api.post("wait_created", "w", resumeAt=AT)).status == 429
        flat = b"\xa1ieventTypelwait_created"
        assert (await it.api.request("POST", f"/api/v3/runs/{RUN}/events", data=flat)).status == 429
        assert (await it.api.send(f"/runs/{RUN}/events/batch", b"\xff")).status == 400
        assert (await it.api.send("/runs/other1/events/batch", WAITS, {"x": "y"})).status == 429
        assert (await it.api.get("/runs/other1/events")).headers["x-vercel-mitigated"] == "challenge"
        assert (await it.api.get("/events?runId=other1&correlationId=c")).status == 429
        assert (await it.api.request("GET", "/healthz")).status == 200
        report = await it.report()
        assert [(rule["matched"], rule["injected"], rule["overtaken"]) for rule in report["rules"]] == [
            (4, 4, 0),
            (3, 2, 1),
        ]
        assert report["recent"][0] == {
            "rule": 1,
            "fault": "throttle (rule 1)",
            "request": f"POST {BATCH}",
            "route": "batch",
            "run_id": RUN,
            "event_types": ["wait_created", "wait_created"],
        }


async def test_without_a_script_nothing_happens_and_the_report_is_empty(api: Api) -> None:
    await api.running_run()
    answer = await api.request("GET", "/__faults")
    assert answer.json == {"seed": 0, "injected": 0, "rules": [], "recent": []}


def test_rules_for_routes_that_are_not_there_are_refused() -> None:
    script = FaultScript.parse("[[rule]]\nfault = 'drop'\nroute = 'nowhere'\n")
    with pytest.raises(ConfigurationError, match=r"script: rule 1: route: 'nowhere' is none of .*batch, "):
        DevServer(faults=script)


def test_the_example_is_for_routes_that_are_there() -> None:
    path = Path(__file__).parent / "fault_scripts" / "every_kind.toml"
    assert DevServer(faults=FaultScript.load(path)).url == ""


# -- what the client makes of them -------------------------------------------------------------


def steps(*names: str) -> list[StepCreated]:
    parsed = [parse_event(event("step_created", name, stepName="work", input=b"devl")) for name in names]
    return [each for each in parsed if isinstance(each, StepCreated)]


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[tuple[EventClient, FakeClock]]:
    clock = FakeClock()
    async with EventClient(url, options=ClientOptions(clock=clock)) as client:
        yield client, clock


async def test_the_client_waits_a_throttle_out(misbehaving: Any) -> None:
    rule = {"fault": "throttle", "retry_after": "3", "times": 2, **ONLY_BATCHES}
    async with misbehaving(rule) as it, client_of(it.url) as (client, clock):
        result = await client.create_batch(RUN, steps("a", "b"))
        assert [receipt.outcome for receipt in result] == [Outcome.CREATED] * 2
        assert sum(clock.sleeps) >= 6
        assert await it.count() == 4


@pytest.mark.parametrize(
    "rule",
    [
        {"fault": "drop", "commit": True},
        {"fault": "cut", "at_bytes": 20},
        {"fault": "refuse", "status": 502, "commit": True},
        {"fault": "twice"},
    ],
)
async def test_the_client_knows_its_own_write_again(misbehaving: Any, rule: dict[str, Any]) -> None:
    async with misbehaving({**rule, "times": 1, **ONLY_BATCHES}) as it, client_of(it.url) as (client, _):
        result = await client.create_batch(RUN, steps("a", "b"))
        # Under its key the write gets the answer again that was lost, or given to the other delivery.
        assert {receipt.outcome for receipt in result} == {Outcome.CREATED}
        assert await it.count() == 4


@pytest.mark.parametrize("rule", [{"fault": "drop"}, {"fault": "refuse", "status": 503}])
async def test_the_client_repeats_what_never_arrived(misbehaving: Any, rule: dict[str, Any]) -> None:
    async with misbehaving({**rule, "times": 1, **ONLY_BATCHES}) as it, client_of(it.url) as (client, _):
        result = await client.create_batch(RUN, steps("a", "b"))
        assert [receipt.outcome for receipt in result] == [Outcome.CREATED] * 2
        assert it.server.requests["batch"] == 2
        assert await it.count() == 4


async def test_the_client_reads_on_behind_a_cut(misbehaving: Any) -> None:
    rule = {"fault": "cut", "at_bytes": -30, "route": "list", "times": 1}
    async with misbehaving(rule) as it, client_of(it.url) as (client, _):
        assert [each.event_type for each in await client.read_log(RUN)] == ["run_created", "run_started"]
        assert it.server.requests["list"] == 2
