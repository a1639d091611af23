"""Reads: pages, whole logs, single events; a log that stops early is never taken for complete."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient import (
    AuthenticationError,
    ConfigurationError,
    EventClientError,
    FirewallChallengeError,
    InvalidEventError,
    Log,
    NotFoundError,
    ProtocolError,
    RetryOptions,
    ThrottleError,
    TransportError,
)
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import encode_frame
from tests.support.scripted_server import Fault, Reply

from .answers import end_frame, log_reply, refusal
from .pages import cursor, cursors, frames, page, pages_of, slots_of
from .samples import OTHER_RUN, RUN
from .stage import stage
from .write_rows import RESET, challenged, throttled

# -- pages -------------------------------------------------------------------------------------


async def test_a_log_in_one_page() -> None:
    async with stage([page(1, 2, 3)]) as it:
        events = await it.client.read_log(RUN)
        (request,) = it.server.requests
    assert [each.payload for each in events] == [b"payload 1", b"payload 2", b"payload 3"]
    assert request.method == "GET"
    assert request.target == f"/api/v4/runs/{RUN}/events?returnAll=true&remoteRefBehavior=resolve"


async def test_pages_follow_one_another() -> None:
    async with stage([page(1, 2, more=True), page(3, more=True, at="odd cursor?&"), page(4)]) as it:
        pages = await pages_of(it)
        assert cursors(it) == [None, cursor(2), "odd cursor?&"]
    assert [[int(each.event_id[-3:]) for each in log.events] for log in pages] == [[1, 2], [3], [4]]
    assert [log.has_more for log in pages] == [True, True, False]
    assert pages[-1].cursor == cursor(4)


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, "returnAll=true&remoteRefBehavior=resolve"),
        ({"limit": 2}, "limit=2&remoteRefBehavior=resolve"),
        ({"cursor": "c"}, "returnAll=true&cursor=c&remoteRefBehavior=resolve"),
        ({"resolve_data": "none"}, "returnAll=true&remoteRefBehavior=lazy"),
        ({"resolve_data": "all"}, "returnAll=true&remoteRefBehavior=resolve"),
        (
            {"limit": 9, "cursor": "a b", "sort_order": "desc"},
            "cursor=a+b&limit=9&sortOrder=desc&remoteRefBehavior=resolve",
        ),
    ],
)
async def test_what_is_asked_of_a_page(options: dict[str, Any], query: str) -> None:
    async with stage([page(1)]) as it:
        await pages_of(it, **options)
        assert it.server.requests[0].target.partition("?")[2] == query


async def test_events_by_correlation_id() -> None:
    body = frames(1) + frames(2, run_id=OTHER_RUN) + frames(3) + end_frame(cursor(3))
    async with stage([log_reply(body)]) as it:
        (log,) = await pages_of(it, correlation_id="c 1", limit=5)
        (request,) = it.server.requests
    assert [int(each.event_id[-3:]) for each in log.events] == [1, 3]
    assert request.raw_path == "/api/v4/events"
    assert request.query[:2] == [("correlationId", "c 1"), ("runId", RUN)]


@pytest.mark.parametrize(
    ("options", "field"),
    [({"limit": 0}, "limit"), ({"limit": -1}, "limit"), ({"sort_order": "up"}, "sort_order")],
)
async def test_what_cannot_be_asked(options: dict[str, Any], field: str) -> None:
    async with stage([]) as it:
        with pytest.raises(InvalidEventError) as raised:
            await pages_of(it, **options)
        assert raised.value.field == field
        assert it.server.connections == 0


async def test_an_empty_log() -> None:
    async with stage([log_reply(end_frame(None)), log_reply(end_frame("c"))]) as it:
        assert await it.client.read_log(RUN) == []
        (log,) = await pages_of(it, cursor="c")
        assert log == Log((), "c", False)


@pytest.mark.parametrize(
    "script",
    [
        [page(1, more=True, at="c"), page(2, more=True, at="c")],
        [page(1, more=True, at="c"), page(1, more=True, at="d")],
        [page(1, more=True, at="c"), log_reply(end_frame("d", has_more=True))],
        [log_reply(end_frame("c", has_more=True))],
        [log_reply(frames(1) + end_frame(None))],
        [log_reply(frames(1) + end_frame(None, has_more=True))],
    ],
    ids=[
        "cursor stands",
        "nothing new",
        "empty and more",
        "nothing and more",
        "no cursor",
        "no cursor and more",
    ],
)
async def test_a_listing_that_does_not_move_is_refused(script: list[Reply]) -> None:
    async with stage(script) as it:
        with pytest.raises(ProtocolError):
            await it.client.read_log(RUN)
        assert it.server.unscripted == 0


async def test_events_seen_before_are_dropped() -> None:
    async with stage([page(1, 2, more=True), page(1, 2, 3)]) as it:
        assert await slots_of(it) == [1, 2, 3]


# -- one event ---------------------------------------------------------------------------------


async def test_one_event() -> None:
    async with stage([log_reply(frames(7))] * 2) as it:
        stored = await it.client.get_event(RUN, "evnt_7")
        await it.client.get_event(RUN, "evnt_7", resolve_data="none")
        targets = [request.target for request in it.server.requests]
    assert stored.payload == b"payload 7"
    assert targets == [
        f"/api/v4/runs/{RUN}/events/evnt_7?remoteRefBehavior={behavior}" for behavior in ("resolve", "lazy")
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "cut off"),
        (frames(1)[:-1], "cut off"),
        (end_frame("c"), "no event"),
        (encode_frame(b"\x01", b""), "malformed"),
    ],
)
async def test_what_is_no_event(body: bytes, said: str) -> None:
    async with stage([log_reply(body)]) as it:
        with pytest.raises(ProtocolError, match=said):
            await it.client.get_event(RUN, "evnt_1")


async def test_an_event_that_is_not_there() -> None:
    async with stage([refusal(404, "event-not-found")]) as it:
        with pytest.raises(NotFoundError) as raised:
            await it.client.get_event(RUN, "evnt_1")
        assert raised.value.code == "event-not-found"


# -- failures ----------------------------------------------------------------------------------

ERROR = encode_frame(encode_value({"_error": 1, "code": "payload-missing"}), b"")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (throttled("1"), ThrottleError),
        (challenged(403), FirewallChallengeError),
        (refusal(401), AuthenticationError),
        (refusal(404), NotFoundError),
        (Reply(status=302, headers={"Location": "/x"}), ConfigurationError),
        (Reply(headers={"Content-Type": "text/html"}, body=b"<title>"), ProtocolError),
        (
            Reply(headers={"Content-Type": "Application/Vnd.Workflow.V4-Frames"}, body=end_frame("c")),
            ProtocolError,
        ),
        (log_reply(frames(1) + ERROR), ProtocolError),
        (log_reply(encode_frame(b"\x01", b"")), ProtocolError),
    ],
)
async def test_reads_that_are_not_repeated(reply: Reply, error: type[EventClientError]) -> None:
    async with stage([reply], repeat_last=True) as it:
        with pytest.raises(error):
            await it.client.read_log(RUN)
        assert (len(it.server.requests), it.clock.sleeps) == (1, [])


@pytest.mark.parametrize("reply", [Reply(status=503), RESET, Reply(fault=Fault.CLOSE_MID_HEADERS)])
async def test_reads_that_are_repeated(reply: Reply) -> None:
    async with stage([reply] * 5 + [page(1, 2, 3)]) as it:
        assert await slots_of(it) == [1, 2, 3]
        assert it.clock.sleeps == [0.5, 1.0, 2.0, 4.0, 8.0]
    async with stage([reply], repeat_last=True, retry=RetryOptions(read_retries=1)) as it:
        with pytest.raises(TransportError):
            await it.client.read_log(RUN)
        assert it.clock.sleeps == [0.5]
