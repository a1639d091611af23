"""The server as a whole: bad requests, options, counters, starting and stopping."""

from __future__ import annotations

import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.clock import SystemClock
from eventclient.devserver.app import DevServer
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.errors import ConfigurationError
from eventclient.model.ids import encode_ulid
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import encode_frame
from eventclient.wire.items import epoch_ms
from tests.devserver.api import AT, RUN, Api, event, frame, raw_frame
from tests.support.fake_clock import FakeClock

SINGLE = f"/runs/{RUN}/events/step_created"
BATCH = f"/runs/{RUN}/events/batch"
CREATED: dict[str, Any] = {
    "eventType": "step_created",
    "specVersion": 7,
    "correlationId": "s",
    "stepName": "work",
}
GOOD = raw_frame(**CREATED)


# -- malformed bodies --------------------------------------------------------------------------


@pytest.mark.parametrize("path", [SINGLE, BATCH])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        GOOD[:-1],
        GOOD[:30],
        GOOD + b"\x00\x00",
        b"\xff\xff\xff\xff" + GOOD,
        encode_frame(b"\x81\x01", b""),
        encode_frame(b"\xff", b""),
        encode_frame(encode_value({}), b""),
        encode_frame(encode_value({"eventType": ""}), b""),
        encode_frame(encode_value({"eventType": 5}), b""),
        encode_frame(encode_value({**CREATED, "correlationId": 5}), b""),
        encode_frame(encode_value({**CREATED, "specVersion": "7"}), b""),
        encode_frame(encode_value({**CREATED, "specVersion": -1}), b""),
        encode_frame(encode_value({**CREATED, "occurredAt": "yesterday"}), b""),
        encode_frame(encode_value({**CREATED, "maxSlot": 1.5}), b""),
        # The first instant of the calendar, east of Greenwich, is before it.
        encode_frame(b"\xa2ieventTypelstep_createdjoccurredAt\xc0\x78\x190001-01-01T00:00:00+05:00", b""),
    ],
)
async def test_malformed_frames_are_refused(api: Api, path: str, body: bytes) -> None:
    await api.running_run()
    answer = await api.send(path, body)
    assert (answer.status, answer.code) == (400, "malformed-frames")
    assert len(await api.log()) == 2


async def test_a_single_post_is_one_frame(api: Api) -> None:
    await api.running_run()
    answer = await api.send(SINGLE, GOOD + GOOD)
    assert (answer.status, answer.code) == (400, "malformed-frames")


@pytest.mark.parametrize(
    ("meta", "body"),
    [
        ({"eventType": "noop"}, b""),
        ({"eventType": "hook_conflict", "correlationId": "h", "hookToken": "t"}, b""),
        ({"eventType": "x" * 5000}, b""),
    ],
)
async def test_events_that_are_not_for_posting_are_refused(
    api: Api, meta: dict[str, Any], body: bytes
) -> None:
    answer = await api.send(SINGLE, raw_frame(body, specVersion=7, **meta))
    assert (answer.status, answer.code) == (400, "unknown-event-type")


@pytest.mark.parametrize(
    ("meta", "body"),
    [
        ({"eventType": "step_created", "correlationId": "s"}, b""),
        ({"eventType": "step_created", "stepName": "work"}, b""),
        ({"eventType": "step_created", "correlationId": "s", "stepName": 5}, b""),
        ({**CREATED, "specVersion": 0}, b""),
        ({**CREATED, "specVersion": 8}, b""),
        ({**CREATED, "specVersion": 2.0**70}, b""),
        ({"eventType": "wait_created", "correlationId": "w"}, b""),
        ({"eventType": "wait_created", "correlationId": "w", "resumeAt": "soon"}, b""),
        ({"eventType": "wait_created", "correlationId": "w", "resumeAt": AT}, b"body"),
        ({"eventType": "hook_created", "correlationId": "h"}, b""),
        ({"eventType": "run_cancelled", "cancelReason": "x" * 513}, b""),
        ({"eventType": "attr_set", "changes": [{"key": 5}], "writer": {"type": "workflow"}}, b""),
        ({"eventType": "attr_set", "changes": []}, b""),
        ({"eventType": "attr_set", "changes": [], "writer": {"type": "nobody"}}, b""),
        ({"eventType": "run_started", "executionContext": {"x": "y" * 2048}}, b""),
        ({"eventType": "run_started", "executionContext": [[[]] * 2048]}, b""),
        ({"eventType": "run_started", "attributes": {"x": 5}}, b""),
        ({"eventType": "step_started", "correlationId": "s"}, b"devl"),
    ],
)
async def test_events_with_wrong_fields_are_refused(api: Api, meta: dict[str, Any], body: bytes) -> None:
    await api.running_run()
    answer = await api.send(SINGLE, raw_frame(body, **{"specVersion": 7, **meta}))
    assert (answer.status, answer.code) == (400, "invalid-event")
    assert len(await api.log()) == 2


@pytest.mark.parametrize(
    "context",
    [
        b"\xa1\x01\x02",  # a key that is no text
        b"\xc1\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # a date that is none
        b"\xa1ax\xd9\x03\xe7\x01",  # an unknown tag
        b"\xa1ax\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x01",  # an integer no float holds
        b"\xa1ax" * 80 + b"\x01",  # nested too deep
    ],
)
async def test_what_cannot_be_stored_is_refused(api: Api, context: bytes) -> None:
    await api.pending_run()
    meta = b"\xa2ieventTypekrun_startedpexecutionContext" + context
    answer = await api.send(f"/runs/{RUN}/events/run_started", encode_frame(meta, b""))
    assert (answer.status, answer.code) == (400, "invalid-event")


async def test_dates_out_of_range_are_refused(api: Api) -> None:
    await api.running_run()
    meta = b"\xa3ieventTypelwait_createdmcorrelationIdawhresumeAt\xc0\x78\x190001-01-01T00:00:00+05:00"
    answer = await api.send(SINGLE, encode_frame(meta, b""))
    assert (answer.status, answer.code) == (400, "invalid-event")


async def test_fields_of_other_types_and_unknown_keys_are_left_out(api: Api) -> None:
    await api.running_run()
    body = raw_frame(**CREATED, errorCode="E", hookToken="t", resumeId="r", future={"x": 1})
    value = (await api.send(SINGLE, body)).value
    assert value["event"]["eventData"] == {"stepName": "work"}
    assert "resumeId" not in value["event"]
    ended = (await api.send(SINGLE, raw_frame(eventType="run_completed", correlationId="x"))).value
    assert "correlationId" not in ended["event"]


async def test_the_frame_says_what_type_it_is(api: Api) -> None:
    await api.running_run()
    for number, path in enumerate((f"/runs/{RUN}/events/whatever", f"/runs/{RUN}/events")):
        answer = await api.send(path, frame(event("wait_created", f"w{number}", resumeAt=AT)))
        assert answer.value["wait"]["status"] == "waiting"


@pytest.mark.parametrize("segment", ["..", "%2e%2e", "%0a", "x%00y", "x" * 257, "%e2%80%a8", "%20%0d%0a"])
async def test_odd_run_ids_are_refused(api: Api, segment: str) -> None:
    for method, rest in (("GET", "/events"), ("POST", "/events/batch")):
        data = GOOD if method == "POST" else None
        answer = await api.request(method, f"/api/v4/runs/{segment}{rest}", data=data)
        assert answer.status in (400, 404)
        assert answer.code in ("invalid-request", "route-not-found")


async def test_unknown_routes_and_methods_are_refused_in_json(api: Api) -> None:
    for method, path, status, code in (
        ("GET", "/nowhere", 404, "route-not-found"),
        ("POST", "/api/v5/runs/x/events/batch", 404, "route-not-found"),
        ("DELETE", f"/api/v4{BATCH}", 405, "method-not-allowed"),
    ):
        answer = await api.request(method, path)
        assert (answer.status, answer.code) == (status, code)
    assert "POST" in answer.headers["Allow"]


# -- options -----------------------------------------------------------------------------------


def run_id_of(offset: timedelta, clock: FakeClock, region: int = 0) -> str:
    milliseconds = epoch_ms(clock.wall() + offset) | region << 47
    return f"wrun_{encode_ulid(milliseconds, 5)}"


async def test_run_ids_are_checked_for_their_age_on_request(
    clock: FakeClock, session: aiohttp.ClientSession
) -> None:
    async with DevServer(clock=clock, check_run_time=True) as server:
        api = Api(session, server.url)
        for offset, status in (
            (timedelta(0), 200),
            (timedelta(hours=-24), 200),
            (timedelta(minutes=5), 200),
            (timedelta(hours=-24, milliseconds=-1), 400),
            (timedelta(minutes=5, milliseconds=1), 400),
        ):
            for region in (0, 1):
                answer = await api.pending_run(run_id_of(offset, clock, region))
                assert answer.status == status, offset
        refused = await api.pending_run("wrun_x")
        assert (refused.status, refused.code) == (400, "run-id-time")
        start: dict[str, Any] = {"deploymentId": "d", "workflowName": "w", "input": b"x"}
        assert (await api.post("run_started", run="wrun_x", **start)).status == 200


async def test_run_ids_are_not_checked_for_their_age_by_default(api: Api) -> None:
    assert (await api.pending_run("wrun_x")).status == 200


async def test_middlewares_stand_around_every_route(session: aiohttp.ClientSession) -> None:
    seen = []

    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        seen.append((request.method, response.status))
        return response

    @web.middleware
    async def fail(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST":
            return web.Response(status=503)
        return await handler(request)

    async with DevServer(middlewares=[observe, fail], clock=SystemClock()) as server:
        api = Api(session, server.url)
        assert (await api.pending_run()).status == 503
        assert (await api.get(f"/runs/{RUN}/events")).status == 404
        assert seen == [("POST", 503), ("GET", 404)]
        assert server.requests == {"single": 1, "list": 1}


async def test_requests_are_counted_by_route(api: Api, server: DevServer) -> None:
    await api.running_run()
    await api.batch(event("wait_created", "w", resumeAt=AT))
    await api.get(f"/runs/{RUN}/events")
    await api.get(f"/runs/{RUN}/events/x")
    await api.get("/events")
    await api.request("GET", "/nowhere")
    assert (await api.request("GET", "/healthz")).json == {"status": "ok"}
    assert server.requests == {
        "single": 2,
        "batch": 1,
        "list": 1,
        "get": 1,
        "correlation": 1,
        "health": 1,
        "other": 1,
    }


# -- starting and stopping ---------------------------------------------------------------------


async def test_a_file_keeps_runs_over_a_restart(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    path = str(tmp_path / "runs.db")
    async with DevServer(SqliteStore(path)) as server:
        api = Api(session, server.url)
        await api.running_run()
        await api.batch(event("step_created", "a", stepName="work", input=b"devl"))
        before = await api.get(f"/runs/{RUN}/events")
    async with DevServer(SqliteStore(path)) as server:
        api = Api(session, server.url)
        assert (await api.get(f"/runs/{RUN}/events")).body == before.body
        answer = await api.batch(
            event("step_created", "a", stepName="work"), event("step_created", "b", stepName="work")
        )
        assert answer.statuses == [409, 200]
        assert answer.results[1]["event"]["eventId"].endswith("04")


async def test_memory_forgets(session: aiohttp.ClientSession) -> None:
    for _ in range(2):
        async with DevServer() as server:
            assert (await Api(session, server.url).pending_run()).status == 200


async def test_a_taken_port_is_reported_and_the_store_closed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        store = SqliteStore(str(tmp_path / "runs.db"))
        with pytest.raises(OSError, match="in use"):
            async with DevServer(store, port=taken.getsockname()[1]):
                pass
        with pytest.raises(ConfigurationError):
            await store.list_streams("r")


async def test_a_store_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot use the database"):
        async with DevServer(SqliteStore(str(tmp_path / "missing" / "runs.db"))):
            pass


async def test_the_url_names_the_port(server: DevServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert int(server.url.rsplit(":", 1)[1]) > 0
