"""Streams over HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.devserver.app import SHUTDOWN_TIMEOUT_S, DevServer
from eventclient.devserver.routes.streams import MAX_PAGE_BYTES
from eventclient.devserver.state import Changes
from eventclient.devserver.store import Store, StreamPart, StreamQuery
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.wire.codec import decode
from tests.devserver.api import AT, RUN, Answer, Api
from tests.devserver.saved import run, save

STREAM = "strm_01M8N3CBJFGCK98VP8CKHQXT84_user"
CBOR = {"Accept": "application/cbor"}


def framed(*chunks: bytes) -> bytes:
    return b"".join(len(chunk).to_bytes(4, "big") + chunk for chunk in chunks)


@dataclass
class Streams:
    """The streams of one run as their callers see them."""

    api: Api
    run: str = RUN

    async def put(self, name: str, body: bytes = b"", **headers: str) -> Answer:
        all_headers = {f"X-Stream-{header.capitalize()}": value for header, value in headers.items()}
        path = f"/api/v2/runs/{self.run}/stream/{name}"
        return await self.api.request("PUT", path, data=BytesIO(body), headers=all_headers)

    async def write(self, name: str, *chunks: bytes) -> None:
        answer = await self.put(name, framed(*chunks), multi="true")
        assert (answer.status, answer.body) == (204, b"")

    async def close(self, name: str) -> None:
        assert (await self.put(name, done="true")).status == 204

    async def get(self, path: str) -> Any:
        answer = await self.api.request("GET", f"/api/v2/runs/{self.run}/streams{path}", headers=CBOR)
        assert (answer.status, answer.content_type) == (200, "application/cbor"), answer
        return decode(answer.body)

    async def read(self, name: str, query: str = "") -> bytes:
        answer = await self.api.request("GET", f"/api/v3/runs/{self.run}/stream/{name}{query}")
        assert (answer.status, answer.content_type) == (200, "application/octet-stream")
        return answer.body


@pytest.fixture
def streams(api: Api) -> Streams:
    return Streams(api)


# -- writes ------------------------------------------------------------------------------------


async def test_a_body_is_one_chunk_unless_it_says_otherwise(streams: Streams) -> None:
    answer = await streams.put(STREAM, framed(b"a", b"b"))
    assert (answer.status, answer.body) == (204, b"")
    await streams.write(STREAM, b"c", b"", b"d")
    page = await streams.get(f"/{STREAM}/chunks")
    assert page == {
        "data": [
            {"index": 0, "data": framed(b"a", b"b")},
            {"index": 1, "data": b"c"},
            {"index": 2, "data": b""},
            {"index": 3, "data": b"d"},
        ],
        "cursor": None,
        "hasMore": False,
        "done": False,
    }


@pytest.mark.parametrize(
    "body",
    [framed(b"a")[:-1], framed(b"a") + b"\0", b"\xff\xff\xff\xffa", framed(*[b"x"] * 1001)],
    ids=["cut", "half a length", "a huge length", "too many"],
)
async def test_malformed_chunks_are_refused_and_none_is_written(streams: Streams, body: bytes) -> None:
    answer = await streams.put(STREAM, body, multi="true")
    assert (answer.status, answer.code) == (400, "malformed-chunks")
    assert await streams.get(f"/{STREAM}/info") == {"tailIndex": -1, "done": False}
    assert await streams.get("") == []


async def test_a_thousand_chunks_go_at_once(streams: Streams) -> None:
    await streams.write(STREAM, *[b"x"] * 1000)
    assert await streams.get(f"/{STREAM}/info") == {"tailIndex": 999, "done": False}


async def test_a_closed_stream_takes_no_chunk_and_may_be_closed_again(streams: Streams) -> None:
    await streams.write(STREAM, b"a")
    await streams.close(STREAM)
    for answer in (
        await streams.put(STREAM, b"b"),
        await streams.put(STREAM, framed(b"b"), multi="true"),
        await streams.put(STREAM, b"b", done="true"),
    ):
        assert (answer.status, answer.code) == (409, "stream-closed")
    await streams.close(STREAM)
    assert await streams.get(f"/{STREAM}/info") == {"tailIndex": 0, "done": True}
    assert await streams.read(STREAM) == b"a"


async def test_what_comes_with_the_end_is_the_last_chunk(streams: Streams) -> None:
    assert (await streams.put(STREAM, b"last", done="true")).status == 204
    assert await streams.get(f"/{STREAM}/info") == {"tailIndex": 0, "done": True}
    assert await streams.read(STREAM) == b"last"


async def test_a_header_that_does_not_say_true_says_nothing(streams: Streams) -> None:
    assert (await streams.put(STREAM, b"a", done="false", multi="1")).status == 204
    assert await streams.get(f"/{STREAM}/info") == {"tailIndex": 0, "done": False}
    assert (await streams.get(f"/{STREAM}/chunks"))["data"] == [{"index": 0, "data": b"a"}]


# -- what there is -----------------------------------------------------------------------------


async def test_streams_are_listed_in_the_order_in_which_they_came_to_be(streams: Streams) -> None:
    assert await streams.get("") == []
    for name in ("b", "a", "b", "c%2Fd"):
        await streams.put(name, b"x")
    assert await streams.get("") == ["b", "a", "c/d"]
    assert await replace(streams, run="wrun_other").get("") == []


async def test_a_list_is_json_for_who_asks_for_nothing_else(streams: Streams) -> None:
    await streams.put("a", b"x")
    answer = await streams.api.request("GET", f"/api/v2/runs/{RUN}/streams")
    assert (answer.status, answer.json) == (200, ["a"])


async def test_a_stream_nobody_wrote_to_is_open_and_empty(streams: Streams) -> None:
    assert await streams.get("/none/info") == {"tailIndex": -1, "done": False}
    page: dict[str, Any] = {"data": [], "cursor": None, "hasMore": False, "done": False}
    assert await streams.get("/none/chunks") == page
    assert await streams.get("/none/chunks?cursor=7") == page


async def test_pages_hold_every_chunk_once(streams: Streams) -> None:
    await streams.write(STREAM, *(bytes([number]) for number in range(7)))
    await streams.close(STREAM)
    pages: list[list[tuple[int, bytes]]] = []
    query = "?limit=3"
    while True:
        page = await streams.get(f"/{STREAM}/chunks{query}")
        pages.append([(chunk["index"], chunk["data"]) for chunk in page["data"]])
        assert page["done"] is True
        assert page["hasMore"] == (page["cursor"] is not None)
        if not page["hasMore"]:
            break
        query = f"?limit=3&cursor={page['cursor']}"
    chunks = [(number, bytes([number])) for number in range(7)]
    assert pages == [chunks[:3], chunks[3:6], chunks[6:]]


async def test_a_page_has_a_hundred_chunks_and_never_more_than_a_thousand(streams: Streams) -> None:
    await streams.write(STREAM, *[b"x"] * 1000)
    await streams.write(STREAM, b"y")
    for query, count in (("", 100), ("?limit=5000", 1000)):
        page = await streams.get(f"/{STREAM}/chunks{query}")
        assert (len(page["data"]), page["hasMore"], page["cursor"]) == (count, True, str(count))


async def test_a_page_of_large_chunks_is_cut_short(streams: Streams) -> None:
    large = bytes(MAX_PAGE_BYTES)
    await streams.write(STREAM, b"small", large, b"next")
    page = await streams.get(f"/{STREAM}/chunks")
    assert [chunk["data"] for chunk in page["data"]] == [b"small", large]
    assert (page["hasMore"], page["cursor"]) == (True, "2")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("v2/runs/r/streams/s/chunks?limit=0", "invalid-request"),
        ("v2/runs/r/streams/s/chunks?limit=-1", "invalid-request"),
        ("v2/runs/r/streams/s/chunks?limit=x", "invalid-request"),
        ("v2/runs/r/streams/s/chunks?limit=99999999999999999999", "invalid-request"),
        ("v2/runs/r/streams/s/chunks?cursor=-1", "invalid-cursor"),
        ("v2/runs/r/streams/s/chunks?cursor=", "invalid-cursor"),
        ("v2/runs/r/streams/s/chunks?cursor=99999999999999999999", "invalid-cursor"),
        ("v3/runs/r/stream/s?startIndex=1.5", "invalid-request"),
        ("v3/runs/r/stream/s?startIndex=--1", "invalid-request"),
        ("v3/runs/r/stream/s?startIndex=-", "invalid-request"),
        ("v3/runs/r/stream/s?startIndex=%C2%B2", "invalid-request"),
        ("v3/runs/r/stream/s?startIndex=99999999999999999999", "invalid-request"),
        ("v3/runs/r/stream/%00", "invalid-request"),
        ("v2/runs/%00/streams", "invalid-request"),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, path: str, code: str) -> None:
    answer = await api.request("GET", f"/api/{path}")
    assert (answer.status, answer.code) == (400, code)


async def test_a_run_whose_payloads_are_gone_has_no_streams_to_read(
    make_store: Any, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    store: Store = make_store()
    async with DevServer(store) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, b"secret")
        await save(store, Changes(run=run(expiredAt=AT + timedelta(seconds=1)), last_slot=0))
        for path in (
            f"v3/runs/{RUN}/stream/{STREAM}",
            f"v2/runs/{RUN}/streams/{STREAM}/chunks",
            f"v2/runs/{RUN}/streams/{STREAM}/info",
        ):
            answer = await streams.api.request("GET", f"/api/{path}")
            assert answer.status == 410
            assert answer.json["code"] == answer.json["error"] == "stream-expired"
            details = {"runId": RUN, "streamId": STREAM, "expiredAt": "2026-01-01T12:00:01+00:00"}
            assert answer.json["details"] == details


# -- live reads --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", b"abcd"),
        ("?startIndex=0", b"abcd"),
        ("?startIndex=1", b"bcd"),
        ("?startIndex=3", b"cd"),
        ("?startIndex=4", b""),
        ("?startIndex=9", b""),
        ("?startIndex=-1", b"cd"),
        ("?startIndex=-3", b"bcd"),
        ("?startIndex=-9", b"abcd"),
    ],
)
async def test_a_read_begins_where_it_is_told_to(streams: Streams, query: str, body: bytes) -> None:
    await streams.write(STREAM, b"a", b"b", b"", b"cd")
    await streams.close(STREAM)
    assert await streams.read(STREAM, query) == body


@asynccontextmanager
async def reading(
    session: aiohttp.ClientSession, streams: Streams, query: str = ""
) -> AsyncIterator[aiohttp.ClientResponse]:
    url = f"{streams.api.origin}/api/v3/runs/{RUN}/stream/{STREAM}{query}"
    async with session.get(url) as response:
        assert response.status == 200
        yield response


async def test_a_read_whose_chunks_are_purged_does_not_look_as_if_it_were_whole(
    make_store: Any, session: aiohttp.ClientSession
) -> None:
    store: Store = make_store()
    async with DevServer(store) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, b"one")
        async with reading(session, streams) as response:
            assert await response.content.readexactly(3) == b"one"
            await save(store, Changes(run=run(expiredAt=AT), last_slot=0, purge=True))
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()


async def test_a_read_follows_the_writes_until_the_stream_is_closed(
    streams: Streams, session: aiohttp.ClientSession
) -> None:
    async with reading(session, streams) as first:
        await streams.write(STREAM, b"one")
        assert await first.content.readexactly(3) == b"one"
        async with reading(session, streams, "?startIndex=-1") as second:
            assert await second.content.readexactly(3) == b"one"
            await streams.write(STREAM, b"two", b"three")
            assert await second.content.readexactly(8) == b"twothree"
            await streams.close(STREAM)
            assert await second.content.read() == b""
        assert await first.content.read() == b"twothree"


async def test_a_read_waits_for_a_chunk_that_is_far_ahead(
    streams: Streams, session: aiohttp.ClientSession
) -> None:
    async with reading(session, streams, "?startIndex=2") as response:
        await streams.write(STREAM, b"a", b"b")
        await streams.write(STREAM, b"c", b"d")
        assert await response.content.readexactly(2) == b"cd"


async def test_a_read_sees_what_another_process_wrote(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    place = str(tmp_path / "shared.db")
    async with DevServer(SqliteStore(place)) as here, DevServer(SqliteStore(place)) as there:
        readers, writers = Streams(Api(session, here.url)), Streams(Api(session, there.url))
        async with reading(session, readers) as response:
            await writers.write(STREAM, b"from there")
            assert await response.content.readexactly(10) == b"from there"
            await writers.close(STREAM)
            assert await response.content.read() == b""


class Watched(SqliteStore):
    """A store that remembers which parts of streams were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[StreamQuery] = []
        self.was_read = asyncio.Event()

    async def read_stream(self, query: StreamQuery) -> StreamPart:
        self.reads.append(query)
        self.was_read.set()
        return await super().read_stream(query)


@dataclass
class Ended:
    """Tells when a request has been handled."""

    event: asyncio.Event
    transport: asyncio.Transport | None = None

    @property
    def middleware(self) -> Any:
        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.method != "GET":
                return await handler(request)
            self.transport = request.transport
            assert self.transport is not None
            # Little enough room in the kernel that what it holds is far from the whole stream.
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            try:
                return await handler(request)
            finally:
                self.event.set()

        return watch


def request_for(server: DevServer) -> bytes:
    return f"GET /api/v3/runs/{RUN}/stream/{STREAM} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def port_of(server: DevServer) -> int:
    return int(server.url.rpartition(":")[2])


async def test_a_reader_that_goes_away_leaves_nothing_behind(session: aiohttp.ClientSession) -> None:
    ended = Ended(asyncio.Event())
    async with DevServer(Watched(), middlewares=[ended.middleware]) as server:
        streams = Streams(Api(session, server.url))
        before = asyncio.all_tasks()
        async with reading(session, streams) as response:
            await streams.write(STREAM, b"one")
            assert await response.content.readexactly(3) == b"one"
            assert not ended.event.is_set()
            response.close()
        async with asyncio.timeout(30):
            await ended.event.wait()
        await turns(10)
        assert not asyncio.all_tasks() - before - kept_alive()
        assert not server._reads._readers
        assert not server._reads._notices._listeners


async def turns(count: int) -> None:
    """Let everything else go as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


def kept_alive() -> set[asyncio.Task[Any]]:
    """Tasks of connections that wait for another request."""
    return {task for task in asyncio.all_tasks() if "RequestHandler.start" in repr(task.get_coro())}


async def test_a_slow_reader_costs_the_memory_of_a_few_chunks(session: aiohttp.ClientSession) -> None:
    chunk, count = bytes(256 * 1024), 100
    store, ended = Watched(), Ended(asyncio.Event())
    async with DevServer(store, middlewares=[ended.middleware]) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, *[chunk] * count)
        await streams.close(STREAM)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", port_of(server)))
        reader, writer = await asyncio.open_connection(sock=slow, limit=1 << 16)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request_for(server))
        await store.was_read.wait()
        await turns(2000)
        assert all(query.limit == 1 for query in store.reads)
        assert len(store.reads) < count / 4
        assert ended.transport is not None
        assert ended.transport.get_write_buffer_size() < 2 * len(chunk)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        size = 0
        while length := int(await reader.readline(), 16):
            size += length
            await reader.readexactly(length + 2)
        assert size == len(chunk) * count
        writer.close()
        await writer.wait_closed()


async def test_a_long_stream_lets_others_run(session: aiohttp.ClientSession) -> None:
    store, count = Watched(), 1000
    async with DevServer(store) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, *[b"x"] * count)
        await streams.close(STREAM)
        async with reading(session, streams) as response:
            assert len(store.reads) < count
            assert await response.content.read() == b"x" * count


async def test_a_reader_that_leaves_in_the_middle_of_a_chunk_is_no_error(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    ended = Ended(asyncio.Event())
    async with DevServer(middlewares=[ended.middleware]) as server:
        await Streams(Api(session, server.url)).write(STREAM, *[bytes(1 << 20)] * 16)
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server), limit=1 << 10)
        writer.write(request_for(server))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
        async with asyncio.timeout(30):
            await ended.event.wait()
        assert not server._reads._readers
    assert not caplog.records


async def test_the_end_of_the_server_looks_like_no_end_of_the_stream(session: aiohttp.ClientSession) -> None:
    ended = Ended(asyncio.Event())
    server = DevServer(middlewares=[ended.middleware])
    async with server:
        streams = Streams(Api(session, server.url))
        response = await session.get(f"{server.url}/api/v3/runs/{RUN}/stream/{STREAM}")
        await streams.write(STREAM, b"one")
        assert await response.content.readexactly(3) == b"one"
    assert ended.event.is_set()
    with pytest.raises(aiohttp.ClientError):
        await response.content.read()
    response.close()


async def test_a_reader_that_stopped_reading_does_not_hold_up_the_end_of_the_server(
    session: aiohttp.ClientSession,
) -> None:
    ended = Ended(asyncio.Event())
    async with DevServer(middlewares=[ended.middleware]) as server:
        await Streams(Api(session, server.url)).write(STREAM, *[bytes(1 << 20)] * 16)
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server), limit=1 << 10)
        writer.write(request_for(server))
        await reader.readuntil(b"\r\n\r\n")
        assert not ended.event.is_set()
        # Much less than what a running request is given to finish.
        async with asyncio.timeout(SHUTDOWN_TIMEOUT_S / 2):
            await server.aclose()
    assert ended.event.is_set()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


class Failing(SqliteStore):
    """A store whose streams cannot be read beyond their first chunk."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def read_stream(self, query: StreamQuery) -> StreamPart:
        if query.start > 0:
            raise self.error
        return await super().read_stream(query)


@pytest.mark.parametrize("error", [ConnectionResetError("the database"), LookupError("the database")])
async def test_a_failure_of_the_store_looks_like_no_end_of_the_stream(
    session: aiohttp.ClientSession, error: Exception
) -> None:
    async with DevServer(Failing(error)) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, b"one", b"two")
        await streams.close(STREAM)
        async with reading(session, streams) as response:
            assert await response.content.readexactly(3) == b"one"
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()


async def test_streams_outlive_the_server(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    place = str(tmp_path / "runs.db")
    async with DevServer(SqliteStore(place)) as server:
        await Streams(Api(session, server.url)).write(STREAM, b"one", b"two")
    async with DevServer(SqliteStore(place)) as server:
        streams = Streams(Api(session, server.url))
        await streams.write(STREAM, b"three")
        await streams.close(STREAM)
        assert await streams.read(STREAM, "?startIndex=1") == b"twothree"
        assert await streams.get("") == [STREAM]
