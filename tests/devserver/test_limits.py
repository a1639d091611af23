"""What may come in: sizes, counts, depth and time, each refused before it costs anything."""

from __future__ import annotations

import asyncio
import gzip
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.connections import MAX_WAITING_REQUESTS
from eventclient.devserver.limits import Limits
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import encode_frame
from tests.devserver.api import RUN, Api, event, frame, raw_frame
from tests.devserver.raw import connected, exchange, head, read_all, request

BATCH = f"/api/v4/runs/{RUN}/events/batch"
SINGLE = f"/api/v4/runs/{RUN}/events/step_created"
EVENT = raw_frame(eventType="step_created", correlationId="s", stepName="work", specVersion=7)
NEVER_S = 600.0
SOON_S = 0.05

Start = Callable[[Limits], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def limited(limits: Limits) -> AsyncIterator[str]:
    async with DevServer(limits=limits) as server:
        yield server.url
        assert (await exchange(server.url, request("GET", "/healthz"))).status == 200


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


# -- bodies ------------------------------------------------------------------------------------


async def test_a_body_is_refused_by_its_declared_length() -> None:
    async with limited(Limits(max_body_bytes=1000, linger_s=SOON_S)) as url:
        answer = await exchange(url, head("POST", BATCH, Content_Length=1001))
        assert answer.code == (413, "body-too-large")
        assert answer.head["connection"] == "close"
        huge = await exchange(url, head("POST", BATCH, Content_Length=2**70))
        assert huge.status in (400, 413)
        assert (await exchange(url, request("POST", BATCH, b"x" * 1000))).code == (400, "malformed-frames")


async def test_a_body_is_refused_while_it_is_read() -> None:
    async with limited(Limits(max_body_bytes=1000, linger_s=SOON_S)) as url:
        start = head("POST", BATCH, Transfer_Encoding="chunked", Connection="close")
        assert (await exchange(url, start, chunked(b"x" * 600, b"x" * 401))).code == (413, "body-too-large")
        # It does not wait for the end.
        assert (await exchange(url, start, b"%x\r\n" % 10**9 + b"x" * 5000)).code == (413, "body-too-large")
        assert (await exchange(url, start, chunked(b"x" * 600, b"x" * 400))).code == (400, "malformed-frames")


async def test_a_batch_has_a_lower_limit(api: Api) -> None:
    await api.running_run()
    answer = await api.send(f"/runs/{RUN}/events/batch", raw_frame(b"x" * (4 * 1024 * 1024), eventType="x"))
    assert (answer.status, answer.code) == (400, "batch-too-large")


async def test_a_payload_may_be_larger_than_any_meta(api: Api) -> None:
    await api.running_run()
    answer = await api.post("step_created", "s", stepName="work", input=b"devl" + b"x" * 300_000)
    assert answer.status == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x-unheard-of", "gzip, gzip"])
async def test_compressed_bodies_are_refused(encoding: str) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    async with limited(Limits()) as url:
        answer = await exchange(url, request("POST", BATCH, bomb, Content_Encoding=encoding))
        assert answer.code == (415, "unsupported-encoding")
        plain = await exchange(url, request("POST", BATCH, b"", Content_Encoding=encoding))
        assert plain.status in (400, 415)
        identity = await exchange(url, request("POST", BATCH, EVENT, Content_Encoding="Identity"))
        assert identity.code == (404, "run-not-found")


@pytest.mark.parametrize("body", [b"zz\r\n", b"-5\r\nhello", b"5\r\nhelloX", b"\r\n", b"5 5\r\n"])
async def test_broken_chunks_are_refused(body: bytes) -> None:
    async with limited(Limits(body_timeout_s=NEVER_S)) as url:
        start = head("POST", BATCH, Transfer_Encoding="chunked")
        for pieces in (
            (start, body),
            (start + body,),
            (start, b"3\r\nabc\r\n", body),
            (start + b"1\r\na\r\n", body),
        ):
            answer = await exchange(url, *pieces, b"")
            assert answer.status in (400, 431), answer
            assert set(answer.json) == {"message", "code"}


async def test_a_body_that_ends_early_is_no_failure_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with limited(Limits(body_timeout_s=NEVER_S)) as url, connected(url) as (_, writer):
        writer.write(head("POST", BATCH, Content_Length=100) + b"x" * 50)
        # By the answer to another request this one has begun.
        assert (await exchange(url, request("GET", "/healthz"))).status == 200
    assert caplog.text == ""


# -- frames ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [BATCH, SINGLE])
async def test_the_length_of_a_meta_is_bounded(path: str) -> None:
    async with limited(Limits(max_meta_bytes=1000)) as url:
        fits = encode_frame(encode_value({"eventType": "x", "pad": "x" * 980}), b"")
        assert struct.unpack(">I", fits[:4]) == (1000,)
        assert (await exchange(url, request("POST", path, fits))).json["code"] != "malformed-frames"
        over = encode_frame(encode_value({"eventType": "x", "pad": "x" * 981}), b"")
        for body in (over, over[:4], b"\xff\xff\xff\xff"):
            answer = await exchange(url, request("POST", path, body))
            assert answer.code == (400, "malformed-frames")
            assert "more than 1000" in answer.json["message"]


async def test_frames_are_counted_before_any_is_decoded() -> None:
    empty = b"\0\0\0\0\0\0\0\0"
    async with limited(Limits()) as url:
        # Each of them is malformed; that is seen only of as many as are taken.
        many = await exchange(url, request("POST", BATCH, empty * 100_000))
        assert many.code == (400, "batch-too-large")
        assert (await exchange(url, request("POST", BATCH, empty * 50))).code == (400, "malformed-frames")
        two = await exchange(url, request("POST", SINGLE, EVENT + empty * 100_000))
        assert two.code == (400, "malformed-frames")
        assert "more frames than 1" in two.json["message"]


@pytest.mark.parametrize(
    "item",
    [
        b"\x81" * 100_000 + b"\x01",
        b"\xa1ax" * 40_000 + b"\x01",
        b"\x9f" * 120_000,
        b"\xbf" * 120_000,
        b"\xc1" * 100_000 + b"\x01",
        b"\xd8\x40" * 60_000 + b"\x40",
        b"\x5b\x10" + b"\0" * 7,
        b"\x7b\x10" + b"\0" * 7,
        b"\x5b" + b"\xff" * 8,
        b"\x9b\0\0\0\1\0\0\0\0",
        b"\x9a\xff\xff\xff\xff",
        b"\xbb" + b"\xff" * 8,
        b"\xdb" + b"\xff" * 8 + b"\x9b" + b"\xff" * 8,
        b"\xc2\x5b\x10" + b"\0" * 7,
    ],
)
async def test_depth_and_declared_lengths_cost_nothing(item: bytes) -> None:
    body = encode_frame(b"\xa2ieventTypelstep_createdax" + item, b"")
    async with limited(Limits()) as url:
        await exchange(url, request("POST", BATCH, body))
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            for path in (BATCH, SINGLE):
                assert (await exchange(url, request("POST", path, body))).code == (400, "malformed-frames")
            assert tracemalloc.get_traced_memory()[1] - before < 5_000_000 + 10 * len(body)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("refers", [b"\xd8\x1d", b"\xd8\x19"])
async def test_values_that_double_themselves_stay_small(refers: bytes) -> None:
    doubling = b"\xd8\x1c\x82" * 60 + b"\x80" + b"".join(refers + b"\x18" + bytes((n,)) for n in range(60))
    meta = b"\xa3ieventTypekrun_startedpexecutionContext" + doubling + b"aa\x01"
    async with limited(Limits()) as url:
        answer = await exchange(url, request("POST", f"/api/v4/runs/{RUN}/events", encode_frame(meta, b"")))
        assert answer.code == (400, "invalid-event")


# -- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 9000,
        b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000,
        b"GET / HTTP/1.1\r\n" + b"x" * 9000 + b": y\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % number for number in range(200)) + b"\r\n",
    ],
)
async def test_lines_and_headers_too_long_or_too_many_are_refused(start: bytes) -> None:
    async with limited(Limits()) as url:
        answer = await exchange(url, start)
        assert answer.code == (431, "headers-too-large")


async def test_headers_up_to_the_limit_are_taken() -> None:
    async with limited(Limits(max_header_bytes=4000)) as url:
        fields: dict[str, str | int] = {f"X{number}": "y" for number in range(90)}
        fits = head("GET", "/healthz", X="x" * 3900, Connection="close", **fields)
        assert (await exchange(url, fits)).status == 200
        assert (await exchange(url, request("GET", "/healthz", X="x" * 4100))).status == 431


@pytest.mark.parametrize(
    "start",
    [
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \0\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(start: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with limited(Limits()) as url:
        assert (await exchange(url, start)).code == (400, "malformed-request")
    assert caplog.text == ""


async def test_expectations_nobody_knows_are_refused_in_json() -> None:
    async with limited(Limits(linger_s=SOON_S)) as url:
        answer = await exchange(url, request("GET", "/healthz", Expect="more"))
        assert answer.code == (417, "expectation-failed")


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: y\r\n"])
async def test_headers_that_do_not_come_are_not_waited_for(start: bytes) -> None:
    limits = Limits(header_timeout_s=SOON_S, idle_timeout_s=NEVER_S)
    async with limited(limits) as url:
        assert (await exchange(url, start)).code == (408, "request-timeout")
        # The time counts from the first byte, and for every request on the connection.
        async with connected(url) as (reader, writer):
            writer.write(head("GET", "/healthz"))
            await reader.readuntil(b"ok")
            writer.write(start)
            assert b" 408 " in (await read_all(reader)).data


@pytest.mark.parametrize(
    "start",
    [
        head("POST", BATCH, Content_Length=100) + b"x" * 99,
        head("POST", BATCH, Transfer_Encoding="chunked") + b"5\r\nhello\r\n",
        head("PUT", f"/api/v2/runs/{RUN}/stream/s", Content_Length=5),
        head("GET", "/healthz", Content_Length=5),
    ],
)
async def test_a_body_that_does_not_come_is_not_waited_for(start: bytes) -> None:
    async with limited(Limits(body_timeout_s=SOON_S, linger_s=SOON_S)) as url:
        answer = await exchange(url, start)
        assert answer.code == (408, "request-timeout")
        assert answer.head["connection"] == "close"


async def test_a_slow_body_gets_no_more_time_for_every_byte() -> None:
    limits = Limits(body_timeout_s=SOON_S, linger_s=SOON_S)
    async with limited(limits) as url, connected(url) as (reader, writer):
        writer.write(head("POST", BATCH, Content_Length=10**6))

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0)

        dripping = asyncio.create_task(drip())
        assert (await reader.readline()).split()[1] == b"408"
        dripping.cancel()


@pytest.mark.parametrize("start", [b"", head("GET", "/healthz")])
async def test_idle_connections_are_ended(start: bytes) -> None:
    async with limited(Limits(idle_timeout_s=SOON_S)) as url:
        answer = await exchange(url, start)
        assert answer.data == b"" if not start else answer.status == 200


async def test_time_for_headers_does_not_run_while_a_request_is_answered() -> None:
    async with limited(Limits(header_timeout_s=SOON_S)) as url, connected(url) as (reader, writer):
        writer.write(head("GET", f"/api/v3/runs/{RUN}/stream/s"))
        await reader.readuntil(b"\r\n\r\n")
        # A later request begins while this one is still being answered.
        writer.write(b"GET ")
        put = request("PUT", f"/api/v2/runs/{RUN}/stream/s", b"late", X_Stream_Done="true")
        await exchange(url, put)
        assert b"408" not in await reader.readuntil(b"0\r\n\r\n")


# -- connections -------------------------------------------------------------------------------


async def test_connections_are_bounded() -> None:
    limits = Limits(max_connection_count=1, idle_timeout_s=NEVER_S)
    async with DevServer(limits=limits) as server, connected(server.url) as (reader, writer):
        writer.write(head("GET", "/healthz"))
        await reader.readuntil(b"ok")
        answer = await exchange(server.url, b"")
        assert answer.code == (503, "too-many-connections")
        assert answer.head["retry-after"] == "1"
        writer.write(head("GET", "/healthz"))
        await reader.readuntil(b"ok")


async def test_requests_ahead_of_their_answers_are_bounded() -> None:
    async with DevServer() as server, connected(server.url) as (reader, writer):
        writer.write(head("GET", f"/api/v3/runs/{RUN}/stream/s"))
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(10):
            writer.write(head("GET", "/healthz") * MAX_WAITING_REQUESTS)
            assert (await exchange(server.url, request("GET", "/healthz"))).status == 200
        assert server._runner is not None
        assert server._runner.server is not None
        connections = server._runner.server.connections
        assert connections
        # One piece of the stream may be parsed before anything can be held back.
        assert all(len(connection._messages) < 6 * MAX_WAITING_REQUESTS for connection in connections)


@pytest.mark.parametrize("fields", [{"Upgrade": "websocket"}, {"Upgrade": "h2c"}])
async def test_nobody_is_upgraded(fields: dict[str, str]) -> None:
    async with limited(Limits()) as url:
        answer = await exchange(url, head("GET", "/healthz", Connection="Upgrade", **fields) + b"x" * 100_000)
        assert answer.status == 200
        assert answer.body == b'{"status": "ok"}'
        assert answer.head["connection"] == "close"


# -- paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "segment",
    [
        "..",
        "%2e%2e",
        ".",
        "a%2fb",
        "%2f",
        "%00",
        "%0d%0aX:%20y",
        "%ff",
        "%c0%80",
        "x" * 257,
        "%20",
        "%E2%80%AE",
    ],
)
async def test_odd_path_segments_are_refused(segment: str) -> None:
    async with limited(Limits()) as url:
        for path in (
            f"/api/v4/runs/{segment}/events",
            f"/api/v4/runs/{RUN}/events/{segment}",
            f"/api/v4/events?runId={segment}&correlationId=c",
            f"/api/v4/events?runId={RUN}&correlationId={segment}",
        ):
            answer = await exchange(url, request("GET", path))
            assert answer.status in (400, 404), (path, answer)
            assert set(answer.json) == {"message", "code"}


@pytest.mark.parametrize("name", ["..", "%2e", "%00", "%0d%0aX:%20y", "x" * 257, "%E2%80%AE"])
async def test_odd_stream_names_are_refused(name: str) -> None:
    async with limited(Limits()) as url:
        for method, path in (("GET", f"streams/{name}/info"), ("PUT", f"stream/{name}")):
            answer = await exchange(url, request(method, f"/api/v2/runs/{RUN}/{path}", b"x"))
            assert answer.status in (400, 404), (path, answer)


async def test_the_server_is_as_it_was(api: Api) -> None:
    """Limits leave what is allowed alone."""
    await api.running_run()
    answer = await api.batch(
        *(event("step_created", f"s{n}", stepName="work", input=b"x" * 1000) for n in range(50))
    )
    assert answer.statuses == [200] * 50
    assert len(frame(event("step_created", "s", stepName="work"))) < 200
