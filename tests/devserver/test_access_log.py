"""One line for each request."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.devserver.access_log import AccessLog, line_of
from eventclient.devserver.account import EventAccount, account_of
from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.devserver.limits import Limits
from eventclient.devserver.run_records import Record
from tests.devserver.api import AT, RUN, Api, event
from tests.devserver.raw import RawAnswer, connected, exchange, head, request
from tests.support.fake_clock import FakeClock

BARE: dict[str, Any] = {
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "duration_ms": 1.25,
    "method": "GET",
    "path": "/healthz",
    "route": "health",
    "run_id": None,
    "status": 200,
}


def test_a_line_leaves_out_what_there_is_not() -> None:
    assert json.loads(line_of(Record(**BARE))) == {
        "time": "2026-01-01T00:00:00.000+00:00",
        "method": "GET",
        "path": "/healthz",
        "route": "health",
        "status": 200,
        "duration_ms": 1.25,
        "bytes_in": 0,
        "bytes_out": 0,
    }


def test_no_answer_is_a_status_of_null() -> None:
    told = json.loads(line_of(Record(**{**BARE, "status": None, "error": "ConnectionResetError"})))
    assert (told["status"], told["error"]) == (None, "ConnectionResetError")


def test_a_line_says_what_each_event_met() -> None:
    events = (
        EventAccount("step_created", "s1", 200, slot=4),
        EventAccount("step_created", "s2", 409, "conflict"),
        EventAccount("run_completed", None, 200, slot=5),
    )
    told = json.loads(line_of(Record(**{**BARE, "run_id": "r", "events": events, "faults": ("delay",)})))
    assert told["run"] == "r"
    assert told["faults"] == ["delay"]
    assert told["events"] == [
        {"type": "step_created", "correlation": "s1", "status": 200, "slot": 4},
        {"type": "step_created", "correlation": "s2", "status": 409, "code": "conflict"},
        {"type": "run_completed", "status": 200, "slot": 5},
    ]


@pytest.mark.parametrize(
    "name", ["a\nb", "a\r\nb", "\x1b[31m", "\u2028", "\x85", "\x7f", '"}', "\udcff", "é"]
)
def test_no_name_can_end_or_colour_a_line(name: str) -> None:
    events = (EventAccount("step_created", name, 409, name),)
    fields = {"run_id": name, "events": events, "faults": (name,), "retry_after": name, "error": name}
    line = line_of(Record(**{**BARE, **fields}))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["run"] == name


def test_a_log_that_cannot_be_written_ends_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            raise BrokenPipeError(32, "Broken pipe")

    log = AccessLog(write)
    for _ in range(4):
        log.tell(Record(**BARE))
    assert len(lines) == 2
    assert [each.getMessage() for each in caplog.records] == [
        "the access log ends here, it cannot be written: Broken pipe"
    ]


def test_whatever_writing_raises_is_warned_of_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line)
        if len(lines) < 3:
            raise ValueError("I/O operation on closed file.")

    log = AccessLog(write)
    for _ in range(4):
        log.tell(Record(**BARE))
    assert len(lines) == 4
    (warning,) = caplog.records
    assert warning.getMessage() == "the access log lacks a line, and may lack more"
    assert warning.exc_info is not None
    assert isinstance(warning.exc_info[1], ValueError)


# -- over HTTP ---------------------------------------------------------------------------------


@web.middleware
async def throttle_on_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    if "Throttle" not in request.headers:
        return await handler(request)
    account_of(request).faults.append("throttle")
    return web.json_response({"code": "slow-down"}, status=429, headers={"Retry-After": "2"})


async def lines_of(session: aiohttp.ClientSession, clock: FakeClock) -> list[dict[str, Any]]:
    """Some of everything, and the lines it made."""
    lines: list[str] = []
    middlewares = [throttle_on_request]
    async with DevServer(clock=clock, middlewares=middlewares, access_log=lines.append) as server:
        api = Api(session, server.url)
        await api.running_run()
        await api.post("hook_created", "h", token="s3cret")
        await api.post("hook_received", "h", payload=b"devls3cret")
        steps = [event("step_created", name, stepName="work", input=b"devls3cret") for name in "ab"]
        await api.batch(*steps)
        await api.batch(steps[0], event("wait_created", "w", resumeAt=AT))
        await api.post("step_created", "a", stepName="work", headers={"Throttle": "1"})
        await api.get(f"/runs/{RUN}/events?token=s3cret")
        await api.request("GET", "/api/v2/hooks/by-token?token=s3cret")
        await api.request("GET", "/api/v2/hooks/by-token/s3cret")
        await api.request("GET", "/s3cret?token=s3cret", headers={"Authorization": "Bearer s3cret"})
        await api.request("DELETE", f"/api/v4/runs/{RUN}/events/batch")
        await api.send(f"/runs/{RUN}/events/batch", b"s3cret")
    return [json.loads(line) for line in lines]


async def test_every_request_has_its_line(session: aiohttp.ClientSession, clock: FakeClock) -> None:
    lines = await lines_of(session, clock)
    statuses = [line["status"] for line in lines]
    assert statuses[:8] == [200] * 6 + [429, 200]
    assert statuses[9:] == [404, 404, 405, 400]
    assert {line["time"] for line in lines} == {"2026-01-01T00:00:00.000+00:00"}
    batch = "/api/v4/runs/{runId}/events/batch"
    single = "/api/v4/runs/{runId}/events/{eventType}"
    assert [line["path"] for line in lines[:6]] == [single, single, single, single, batch, batch]
    assert {line.get("run") for line in lines[:8]} == {RUN}
    taken, mixed, throttled = lines[4:7]
    assert [told["slot"] for told in taken["events"]] == [5, 6]
    assert mixed["events"] == [
        {"type": "step_created", "correlation": "a", "status": 409, "code": "conflict"},
        {"type": "wait_created", "correlation": "w", "status": 200, "slot": 7},
    ]
    assert (throttled["code"], throttled["retry_after"]) == ("slow-down", "2")
    assert (throttled["faults"], throttled["run"]) == (["throttle"], RUN)
    assert "events" not in throttled
    assert lines[-1]["code"] == "malformed-frames"
    assert lines[-2]["path"] == "/api/v4/runs/*/events/batch"


async def test_no_line_tells_a_secret(session: aiohttp.ClientSession, clock: FakeClock) -> None:
    for line in await lines_of(session, clock):
        assert "s3cret" not in json.dumps(line)
        assert "?" not in line["path"]


async def test_without_a_log_requests_are_served_all_the_same(
    session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    async with DevServer(clock=clock) as server:
        assert (await Api(session, server.url).pending_run()).status == 200


async def test_of_a_stranger_there_is_a_line_and_nothing_is_kept(
    session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    lines: list[str] = []
    async with DevServer(clock=clock, token="s3cret", access_log=lines.append, max_kept=20) as server:
        api = Api(session, server.url)
        session.headers["Authorization"] = "Bearer s3cret"
        await api.running_run()
        for run in (RUN, "wrun_other"):
            for _ in range(20):
                stranger = {"Authorization": "Bearer wrong"}
                answer = await api.send(f"/runs/{run}/events/batch", b"x", headers=stranger)
                assert answer.status == 401
        part = (await api.request("GET", f"/__runs/{RUN}")).json
    assert [request["status"] for request in part["requests"]] == [200, 200]
    assert (part["tally"], part["position"]["number"]) == ({"requests": 2}, 2)
    told = [json.loads(line) for line in lines[2:-1]]
    assert [(line["status"], line["code"]) for line in told] == [(401, "unauthorized")] * 40


async def refused_before_it_is_routed(url: str, kind: str) -> RawAnswer:
    if kind == "slow":
        return await exchange(url, b"GET /s3cret HTTP/1.1\r\nX: s3cret\r\n")
    if kind == "one too many":
        async with connected(url) as (reader, writer):
            writer.write(head("GET", "/healthz"))
            await reader.readuntil(b"ok")
            return await exchange(url, b"")
    sent = {
        "malformed": b"s3cret\r\n\r\n",
        "long": request("GET", "/healthz", X="s3cret" * 2000),
        "expectation": request("GET", "/healthz", Expect="s3cret"),
    }
    return await exchange(url, sent[kind])


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("malformed", 400, "malformed-request"),
        ("slow", 408, "request-timeout"),
        ("expectation", 417, "expectation-failed"),
        ("long", 431, "headers-too-large"),
        ("one too many", 503, "too-many-connections"),
    ],
)
async def test_what_is_refused_before_it_is_a_request_has_its_line(kind: str, status: int, code: str) -> None:
    lines: list[str] = []
    limits = Limits(max_connection_count=1, header_timeout_s=0.05)
    async with DevServer(clock=FakeClock(), limits=limits, access_log=lines.append) as server:
        assert (await refused_before_it_is_routed(server.url, kind)).code == (status, code)
    assert "s3cret" not in "".join(lines)
    told = [line for line in map(json.loads, lines) if line["path"] != "/healthz"]
    assert told == [
        {
            "time": "2026-01-01T00:00:00.000+00:00",
            "method": "-",
            "path": "-",
            "route": "-",
            "status": status,
            "code": code,
            "bytes_in": 0,
            "bytes_out": 0,
        }
    ]


@pytest.mark.parametrize(("error", "status"), [(ValueError("x"), 500), (web.HTTPConflict(), 409)])
async def test_a_request_that_fails_has_one_line(
    session: aiohttp.ClientSession, error: Exception, status: int
) -> None:
    @web.middleware
    async def fail(request: web.Request, handler: Handler) -> web.StreamResponse:
        raise error

    lines: list[str] = []
    async with DevServer(middlewares=[fail], access_log=lines.append) as server:
        assert (await Api(session, server.url).request("GET", "/healthz")).status == status
    (told,) = map(json.loads, lines)
    assert (told["path"], told["status"]) == ("/healthz", status)


async def test_a_log_that_raises_hurts_no_request(
    session: aiohttp.ClientSession, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (tmp_path / "log").open("w") as file:
        pass
    async with DevServer(clock=clock, access_log=lambda line: print(line, file=file)) as server:
        api = Api(session, server.url)
        await api.running_run()
        assert (await api.post("step_created", "s", stepName="work")).status == 200
        part = (await api.request("GET", f"/__runs/{RUN}")).json
    # What comes after the log is done, too: the page knows all of them.
    assert [[told["slot"] for told in request["events"]] for request in part["requests"]] == [[1], [2], [3]]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_injected_faults_are_told_with_what_came_of_them(
    session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    script = FaultScript.parse(
        """
        [[rule]]
        fault = "drop"
        commit = true
        route = "batch"
        nth = 1
        [[rule]]
        fault = "cut"
        at_bytes = 5
        route = "batch"
        nth = 2
        [[rule]]
        fault = "throttle"
        retry_after = "3"
        route = "batch"
        nth = 3
        """
    )
    lines: list[str] = []
    async with DevServer(clock=clock, faults=script, access_log=lines.append) as server:
        api = Api(session, server.url)
        await api.running_run()
        for name in ("a", "b"):
            with pytest.raises(aiohttp.ClientError):
                await api.batch(event("step_created", name, stepName="work"))
        await api.batch(event("step_created", "c", stepName="work"))
        part = (await api.request("GET", f"/__runs/{RUN}")).json
    dropped, cut, throttled = (json.loads(line) for line in lines[2:5])
    assert (dropped["status"], cut["status"], throttled["status"]) == (None, None, 429)
    assert [told["events"][0]["slot"] for told in (dropped, cut)] == [3, 4]
    assert (throttled["retry_after"], "events" in throttled) == ("3", False)
    for told, word in ((dropped, "drop"), (cut, "cut"), (throttled, "throttle")):
        assert [word in fault for fault in told["faults"]] == [True]
    marks = [list(request["marks"]) for request in part["requests"]]
    assert marks == [[], [], ["dropped", "fault"], ["dropped", "fault"], ["throttled", "fault"]]
