"""The header that carries a key: what it may look like, where it is taken, and what every answer says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.limits import Limits
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.wire.codec import encode_value
from tests.devserver.api import RUN, Api, event, frame, raw_frame
from tests.devserver.keyed import REPLAYED, SUPPORT, UNGUARDED, Delivery, prepare, retries, single
from tests.devserver.raw import RawAnswer, exchange, head, request

PATH = f"/api/v4/runs/{RUN}/events/step_retrying"
BODY = frame(event("step_retrying", "r", error=b"devle"))
KEY = {"Idempotency-Key": '"k"'}


@pytest.fixture
async def server() -> AsyncIterator[DevServer]:
    # What a header says is settled before any store is asked.
    async with DevServer() as server:
        yield server


async def post(url: str, *lines: bytes, run: str = RUN) -> RawAnswer:
    """Deliver the event with header lines that may be anything."""
    start = head("POST", PATH.replace(RUN, run), Content_Length=len(BODY), Connection="close").removesuffix(
        b"\r\n"
    )
    return await exchange(url, start + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + BODY)


# -- what a key looks like -----------------------------------------------------------------------


KEYS = [
    b'"k"',
    b'"' + b"x" * 255 + b'"',
    b'"01234567-89ab-4cde-8f01-23456789abcd"',
    b'" "',
    b'"a key, of; some = words"',
    rb'"a\"b"',
    rb'"a\\b"',
    rb'"\\"',
    b'"' + rb"\"" * 127 + b'"',
    bytes([0x22, *(byte for byte in range(0x20, 0x7F) if byte not in b'"\\'), 0x22]),
    b' \t "k" \t ',
]
NO_KEYS = [
    b"",
    b'""',
    b"k",
    b"01234567-89ab-4cde-8f01-23456789abcd",
    b":azE=:",
    b"?1",
    b"1",
    b"'k'",
    b'"',
    b'"k',
    b'k"',
    b'"a"b"',
    b'"a" b',
    b'"a""b"',
    b'"a", "b"',
    b'"a";',
    b'"a";b',
    b'"a";b=1',
    b'("a")',
    b'W/"a"',
    rb'"a\b"',
    rb'"a\n"',
    rb'"a\"',
    b'"a\tb"',
    b'"\xe9"',
    b'"\xc3\xa9"',
    b'"\x80"',
    b'"' + b"x" * 256 + b'"',
    b'"' + rb"\\" * 256 + b'"',
    b'"' + b"x" * 2000 + b'"',
]


async def test_a_quoted_text_is_a_key(server: DevServer, api: Api) -> None:
    for count, value in enumerate(KEYS, 1):
        run = f"run-{count}"
        await prepare(api, run)
        first = await post(server.url, b"Idempotency-Key: " + value, run=run)
        second = await post(server.url, b"idempotency-KEY:" + value, run=run)
        assert [first.status, second.status] == [200, 200], value
        assert second.body == first.body
        assert (first.head.get(REPLAYED.lower()), second.head[REPLAYED.lower()]) == (None, "true")
        assert await retries(api, run) == 1, value


async def test_anything_else_is_none(server: DevServer, api: Api) -> None:
    await prepare(api)
    for value in NO_KEYS:
        answer = await post(server.url, b"Idempotency-Key: " + value)
        assert answer.code == (400, "idempotency_key_invalid"), value
        assert answer.head[SUPPORT.lower()] == "true"
        assert REPLAYED.lower() not in answer.head
    assert await retries(api) == 0


@pytest.mark.parametrize("second", [b'"k"', b'"other"', b"", b"k"])
async def test_a_second_header_is_refused_also_if_it_says_the_same(
    server: DevServer, api: Api, second: bytes
) -> None:
    await prepare(api)
    for lines in ((b'"k"', second), (second, b'"k"')):
        answer = await post(server.url, *(b"Idempotency-Key: " + line for line in lines))
        assert answer.code == (400, "idempotency_key_invalid")
    assert await retries(api) == 0


@pytest.mark.parametrize(
    "keys",
    [("k", "K"), ("k", " k"), ("k", "k "), (r"a\\b", r"a\"b"), ("a" * 254, "a" * 255), ("#a", "a")],
    ids=str,
)
async def test_keys_that_differ_at_all_are_two(api: Api, keys: tuple[str, str]) -> None:
    await prepare(api)
    for key in keys:
        answer = await single("step_retrying", "r", error=b"devle", key=key).to(api)
        assert (answer.status, REPLAYED in answer.headers) == (200, False)
    assert await retries(api) == 2


# -- where it is taken ---------------------------------------------------------------------------

TAKING = {"single", "batch", "flat"}
ATTRIBUTES = {"changes": [{"key": "a", "value": "1"}], "writer": {"type": "workflow"}}
OTHERS: dict[str, tuple[str, str, Any]] = {
    "legacy-create": ("POST", "/v1/runs/create", {"deploymentId": "d", "workflowName": "w", "input": []}),
    "legacy-cancel": ("PUT", f"/v1/runs/{RUN}/cancel", None),
    "legacy-event": (
        "POST",
        f"/v1/runs/{RUN}/events",
        {"eventType": "step_retrying", "correlationId": "r", "eventData": {"error": b"e"}},
    ),
    "attributes": ("POST", f"/v2/runs/{RUN}/attributes", ATTRIBUTES),
    "bulk-cancel": ("POST", "/v4/runs/cancel", {"runIds": [RUN]}),
    "stream-write": ("PUT", f"/v2/runs/{RUN}/stream/s", {}),
}
"""A request to each of the other routes that write."""


def test_every_route_that_writes_is_named(server: DevServer) -> None:
    writing = {route.name for route in server._routes if route.method != "GET"}
    assert writing == TAKING | set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
async def test_a_route_that_keeps_no_keys_says_so_and_does_nothing(api: Api, name: str) -> None:
    await prepare(api)
    before = await everything(api)
    method, path, value = OTHERS[name]
    headers = {"Content-Type": "application/cbor", **KEY}
    body = encode_value(value) if value is not None else None
    answer = await api.request(method, f"/api{path}", data=body, headers=headers)
    assert (answer.status, answer.code) == (400, "idempotency_key_unsupported")
    assert answer.headers[SUPPORT] == "true"
    assert await everything(api) == before
    # Without the key it would have been taken.
    del headers["Idempotency-Key"]
    taken = await api.request(method, f"/api{path}", data=body, headers=headers)
    assert taken.status in (200, 204), taken
    assert await everything(api) != before


async def test_a_run_whose_id_is_still_to_be_made_has_no_keys(api: Api) -> None:
    before = await everything(api)
    created = {"eventType": "run_created", "specVersion": 5}
    data = {"deploymentId": "d", "workflowName": "w", "input": b"devli"}
    body = encode_value({**created, "eventData": data})
    headers = {"Content-Type": "application/cbor", "Accept": "application/cbor"}
    post = Delivery("/v3/runs/null/events", body, "k", headers)
    answer = await post.to(api)
    assert (answer.status, answer.code) == (400, "idempotency_key_unsupported")
    assert await everything(api) == before
    assert (await post.without_key().to(api)).status == 200


async def everything(api: Api) -> list[bytes]:
    """All that the requests to `OTHERS` could change."""
    paths = [f"v2/runs/{RUN}", "v2/runs", f"v4/runs/{RUN}/events", f"v2/runs/{RUN}/streams"]
    return [(await api.request("GET", f"/api/{path}")).body for path in paths]


@pytest.mark.parametrize("key", ['"k"', "no key", ""])
async def test_reads_take_no_notice_of_a_key(api: Api, key: str) -> None:
    await prepare(api)
    for path in (
        f"/api/v4/runs/{RUN}/events",
        f"/api/v3/runs/{RUN}/events",
        f"/api/v2/runs/{RUN}",
        "/healthz",
        "/",
    ):
        answers = [
            await api.request("GET", path, headers=headers)
            for headers in ({"Idempotency-Key": key}, {"Idempotency-Key": key}, {})
        ]
        assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}
        assert all(REPLAYED not in answer.headers for answer in answers)


# -- what every answer says ----------------------------------------------------------------------


async def test_every_answer_says_that_keys_are_honoured(api: Api) -> None:
    await prepare(api)
    assert (await api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=b"chunk")).status == 204
    assert (
        await api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", headers={"X-Stream-Done": "true"})
    ).status
    seen = set()
    for method, path in (
        ("GET", "/"),
        ("GET", "/healthz"),
        ("GET", f"/api/v4/runs/{RUN}/events"),
        ("GET", f"/api/v4/runs/{RUN}/events/evnt_00000000000000000000000001"),
        ("GET", f"/api/v4/runs/{RUN}/events/evnt_00000000000000000000000099"),
        ("GET", f"/api/v4/events?runId={RUN}&correlationId=r"),
        ("GET", f"/api/v3/runs/{RUN}/events"),
        ("GET", f"/api/v3/runs/{RUN}/stream/s"),
        ("GET", f"/api/v2/runs/{RUN}"),
        ("GET", f"/api/v2/runs/{RUN}/streams"),
        ("GET", "/api/v2/runs/nobody"),
        ("PUT", f"/api/v2/runs/{RUN}/stream/t"),
        ("PUT", f"/api/v2/runs/{RUN}/stream/s"),
        ("POST", f"/api/v4/runs/{RUN}/events/batch"),
        ("GET", "/nowhere"),
        ("POST", "/nowhere"),
        ("PATCH", "/healthz"),
        ("DELETE", f"/api/v4/runs/{RUN}/events"),
    ):
        answer = await api.request(method, path)
        assert answer.headers[SUPPORT] == "true", (method, path)
        seen.add(answer.status)
    assert seen == {200, 204, 400, 404, 405, 409}
    for delivery in UNGUARDED.values():
        for again in (delivery.without_key(), delivery):
            # `to` looks at the header.
            await again.to(api)
    assert (await api.post("run_completed")).headers[SUPPORT] == "true"
    ended = await api.post("run_started")
    assert (ended.status, ended.headers[SUPPORT]) == (410, "true")


async def test_so_does_a_stream_that_goes_on(api: Api, session: aiohttp.ClientSession) -> None:
    await api.request("PUT", f"/api/v2/runs/{RUN}/stream/s", data=b"chunk")
    for path in (f"/api/v3/runs/{RUN}/stream/s", "/__live"):
        async with session.get(f"{api.origin}{path}") as response:
            assert response.headers[SUPPORT] == "true"


async def test_strangers_are_told_too(session: aiohttp.ClientSession) -> None:
    async with DevServer(token="secret") as server:
        api = Api(session, server.url)
        assert (await single("run_started").to(api)).status == 401
        assert (await api.request("GET", "/api/v2/runs")).headers[SUPPORT] == "true"
    async with DevServer() as server:
        foreign = await exchange(
            server.url, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        assert (foreign.status, foreign.head[SUPPORT.lower()]) == (403, "true")


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (400, b"nonsense\r\n\r\n"),
        (408, b"GET / HTTP/1.1\r\n"),
        (408, head("POST", PATH, Content_Length=10)),
        (413, request("POST", PATH, b"x" * 1001, Idempotency_Key='"k"')),
        (415, request("POST", PATH, b"x", Content_Encoding="gzip")),
        (417, head("POST", PATH, Expect="miracles", Content_Length=0)),
        (431, request("GET", "/healthz", X="x" * 5000)),
    ],
)
async def test_so_are_those_whose_request_is_refused_unread(status: int, data: bytes) -> None:
    limits = Limits(
        max_body_bytes=1000, max_header_bytes=4096, linger_s=0.05, body_timeout_s=0.05, header_timeout_s=0.05
    )
    async with DevServer(limits=limits) as server:
        answer = await exchange(server.url, data)
        assert answer.status == status
        assert answer.head[SUPPORT.lower()] == "true"


async def test_so_are_those_who_are_too_many() -> None:
    async with DevServer(limits=Limits(max_connection_count=1)) as server:
        place = server.url.removeprefix("http://").partition(":")
        _, writer = await asyncio.open_connection(place[0], int(place[2]))
        answer = await exchange(server.url, request("GET", "/healthz"))
        writer.close()
        assert (answer.status, answer.head[SUPPORT.lower()]) == (503, "true")


class BrokenStore(SqliteStore):
    """Cannot be read or written."""

    async def change(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("said")

    async def read_log(self, *_: Any) -> Any:
        raise RuntimeError("said")


async def test_so_are_those_who_meet_a_fault_of_the_server(
    session: aiohttp.ClientSession,
) -> None:
    async with DevServer(BrokenStore()) as server:
        api = Api(session, server.url)
        for answer in (
            await single("run_started").to(api),
            await single("run_started", key=None).to(api),
            await api.get(f"/runs/{RUN}/events"),
        ):
            assert (answer.status, answer.headers[SUPPORT]) == (500, "true")


@pytest.mark.parametrize("body", [b"", b"\0", raw_frame(eventType="run_started")[:-1]])
async def test_a_malformed_body_is_not_recorded(api: Api, body: bytes) -> None:
    await prepare(api)
    for path in (f"/v4/runs/{RUN}/events", f"/v4/runs/{RUN}/events/batch", f"/v3/runs/{RUN}/events"):
        for _ in range(2):
            answer = await Delivery(path, body, "k").to(api)
            assert (answer.status, REPLAYED in answer.headers) == (400, False)
            assert answer.code in ("malformed-frames", "malformed-body")
    # The key is still free for any other request.
    assert (await UNGUARDED["single"].to(api)).status == 200
    assert await retries(api) == 1
