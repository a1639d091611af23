"""What all bodies in flight may take together, and what becomes of one for which there is no room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.devserver.app import DevServer
from eventclient.devserver.bodies import BodyBudget
from eventclient.devserver.limits import Limits
from eventclient.errors import ConfigurationError
from tests.devserver.api import RUN
from tests.devserver.raw import connected, exchange, head, request

BATCH = f"/api/v4/runs/{RUN}/events/batch"
LIMITS = Limits(max_body_bytes=1000, max_bodies_bytes=1000, linger_s=0.05)
REFUSED = (400, "malformed-frames")
"""What a body that was taken meets here."""


@asynccontextmanager
async def held(url: str, start: bytes) -> AsyncIterator[None]:
    """While it lasts, the server waits for the rest of the body that `start` begins."""
    async with connected(url) as (_, writer):
        writer.write(start)
        # By the answer to another request this one has begun.
        assert (await exchange(url, request("GET", "/healthz"))).status == 200
        yield


def chunked(size: int) -> bytes:
    start = head("POST", BATCH, Transfer_Encoding="chunked", Connection="close")
    return start + b"%x\r\n%s\r\n" % (size, b"x" * size)


@pytest.mark.parametrize(
    "start",
    [head("POST", BATCH, Content_Length=600), head("POST", BATCH, Content_Length=600) + b"x", chunked(600)],
    ids=["announced", "begun", "chunked"],
)
async def test_bodies_are_bounded_together(start: bytes) -> None:
    async with DevServer(limits=LIMITS) as server:
        async with held(server.url, start):
            # The body never comes: whoever waited for it would wait for a minute.
            over = await exchange(server.url, head("POST", BATCH, Content_Length=401))
            assert over.code == (503, "too-many-bodies")
            assert over.head["retry-after"] == "1"
            assert over.head["connection"] == "close"
            assert (await exchange(server.url, chunked(401))).code == (503, "too-many-bodies")
            for _ in range(3):
                # Room that was given back is room again.
                assert (await exchange(server.url, request("POST", BATCH, b"x" * 400))).code == REFUSED
                assert (await exchange(server.url, chunked(400) + b"0\r\n\r\n")).code == REFUSED
        assert (await exchange(server.url, request("POST", BATCH, b"x" * 1000))).code == REFUSED


@pytest.mark.parametrize(
    "spent",
    [
        request("POST", BATCH, b"x" * 1000),
        request("POST", BATCH, b"x" * 1001),
        request("POST", BATCH, b"x" * 1000, Content_Encoding="gzip"),
        request("PUT", "/nowhere", b"x" * 1000),
        chunked(900) + b"zz\r\n",
        chunked(900) + chunked(900)[-910:],
    ],
    ids=["refused", "too large", "compressed", "no route", "broken", "too large in chunks"],
)
async def test_however_a_request_ends_its_room_is_given_back(spent: bytes) -> None:
    async with DevServer(limits=LIMITS) as server:
        for _ in range(3):
            assert (await exchange(server.url, spent)).status >= 400
        assert (await exchange(server.url, request("POST", BATCH, b"x" * 1000))).code == REFUSED


async def test_the_time_for_a_body_ends_its_claim() -> None:
    limits = Limits(max_body_bytes=1000, max_bodies_bytes=1000, body_timeout_s=0.05, linger_s=0.05)
    async with DevServer(limits=limits) as server:
        slow = await exchange(server.url, head("POST", BATCH, Content_Length=1000))
        assert slow.code == (408, "request-timeout")
        assert (await exchange(server.url, request("POST", BATCH, b"x" * 1000))).code == REFUSED


async def test_a_failure_of_the_server_gives_back_too() -> None:
    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        seen.append(request)
        return await handler(request)

    async def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    seen: list[web.Request] = []
    async with DevServer(limits=LIMITS, middlewares=[observe]) as server:
        server._store.write_stream = fail  # type: ignore[assignment]
        put = request("PUT", f"/api/v2/runs/{RUN}/stream/s", b"x" * 1000)
        for _ in range(2):
            assert (await exchange(server.url, put)).status == 500
    assert len(seen) == 2
    # An idle connection would keep it.
    assert [asked._read_bytes for asked in seen] == [None, None]


async def test_a_body_is_whole_however_it_comes() -> None:
    bodies: list[bytes] = []

    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        bodies.append(await request.read())
        return await handler(request)

    async with DevServer(middlewares=[observe]) as server:
        assert (await exchange(server.url, request("POST", BATCH, b"x" * 300_000))).code == REFUSED
    # A middleware around the server may have read it first.
    assert bodies == [b"x" * 300_000]


def test_the_longest_body_has_to_fit() -> None:
    Limits(max_body_bytes=10, max_bodies_bytes=10)
    with pytest.raises(ConfigurationError, match="max_bodies_bytes"):
        Limits(max_body_bytes=11, max_bodies_bytes=10)


async def test_a_claim_takes_all_or_nothing() -> None:
    budget = BodyBudget(10)
    async with budget.claim() as one, budget.claim() as other:
        assert one.reach(6)
        # What is taken already is not taken again.
        assert one.reach(4)
        assert budget.free_bytes == 4
        assert not other.reach(5)
        assert budget.free_bytes == 4
        assert other.reach(4)
        assert not one.reach(7)
    assert budget.free_bytes == 10
