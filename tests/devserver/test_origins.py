"""Which names and pages a server for this machine only answers."""

from __future__ import annotations

import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.limits import Limits
from tests.devserver.raw import RawAnswer, exchange

PUT = "PUT /api/v2/runs/wrun_1/stream/s HTTP/1.1\r\nConnection: close\r\n"
BODY = "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx"
TOKEN = "s3cret"

LOCAL = [
    *("localhost", "localhost:4437", "LocalHost:80", "localhost.", "my.app.localhost:3000"),
    *("127.0.0.1", "127.0.0.1:4437", "127.9.9.9:1", "[::1]", "[::1]:4437", "[0:0:0:0:0:0:0:1]:80"),
]
FOREIGN = [
    *(
        "evil.example",
        "evil.example:4437",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
    ),
    *(
        "localhost@evil.example",
        "evil.example/localhost",
        "evil.example#.localhost",
        "evil.example?.localhost",
    ),
    *("192.0.2.1:4437", "198.51.100.1", "[::]", "[2001:db8::1]:4437", "[::1", "localhost:x", "", ":4437"),
    *("user@localhost", ".localhost/../x"),
]


async def ask(fields: str, **options: str | bool) -> RawAnswer:
    async with DevServer(**options) as server:  # type: ignore[arg-type]
        return await exchange(server.url, (PUT + fields + BODY).encode("latin-1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_the_names_of_this_machine_are_served(host: str) -> None:
    async with DevServer(host=host) as server:
        for name in LOCAL:
            answer = await exchange(server.url, f"{PUT}Host: {name}\r\n{BODY}".encode())
            assert answer.status == 204, name


@pytest.mark.parametrize("name", FOREIGN)
async def test_no_other_name_is(name: str) -> None:
    answer = await ask(f"Host: {name}\r\n")
    # What is no name at all may be refused before it is looked at.
    assert answer.status in (400, 403)
    assert answer.json["code"] in ("foreign-host", "malformed-request")
    assert (await ask(f"Host: {name}\r\n", token=TOKEN)).status in (400, 401)


async def test_the_name_of_another_server_is_foreign_on_every_route() -> None:
    async with DevServer() as server:
        for path in ("/", "/healthz", "/__runs", "/nowhere", "/api/v4/runs/wrun_1/events"):
            start = f"GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode()
            assert (await exchange(server.url, start)).code == (403, "foreign-host"), path


async def test_the_address_that_stands_for_every_one_is_no_name_of_this_machine() -> None:
    assert (await ask("Host: 0.0.0.0:4437\r\n")).code == (403, "foreign-host")


async def test_a_second_name_is_looked_at_too() -> None:
    assert (await ask("Host: localhost\r\nHost: evil.example\r\n")).status in (400, 403)
    answer = await ask("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n")
    assert answer.status in (400, 403)


async def test_a_caller_need_not_name_the_server() -> None:
    async with DevServer() as server:
        answer = await exchange(server.url, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert answer.status == 200


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP"])
@pytest.mark.parametrize("name", LOCAL)
async def test_the_pages_of_this_machine_are_served(scheme: str, name: str) -> None:
    assert (await ask(f"Host: localhost\r\nOrigin: {scheme}://{name}\r\n")).status == 204


@pytest.mark.parametrize(
    "origin",
    [
        *(f"http://{name}" for name in FOREIGN),
        *("null", "", "localhost", "//localhost", "file://localhost", "chrome-extension://localhost"),
        *("https://evil.example", "http://localhost, http://evil.example", "\xe9"),
    ],
)
async def test_no_other_page_is(origin: str) -> None:
    answer = await ask(f"Host: localhost\r\nOrigin: {origin}\r\n")
    assert answer.code == (403, "foreign-origin")


async def test_a_foreign_page_writes_nothing_and_is_told_before_its_body_comes() -> None:
    async with DevServer(limits=Limits(linger_s=0.05)) as server:
        start = PUT + "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 1000\r\n\r\n"
        answer = await exchange(server.url, start.encode())
        assert answer.code == (403, "foreign-origin")
        put = f"{PUT}Host: localhost\r\nOrigin: http://evil.example\r\n{BODY}"
        assert (await exchange(server.url, put.encode())).status == 403
        listed = b"GET /api/v2/runs/wrun_1/streams HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert (await exchange(server.url, listed)).body == b"[]"


async def test_what_serves_others_on_purpose_asks_for_no_name() -> None:
    fields = "Host: evil.example\r\nOrigin: http://evil.example\r\n"
    assert (await ask(f"{fields}Authorization: Bearer {TOKEN}\r\n", token=TOKEN)).status == 204
    everywhere = await ask(fields, host="0.0.0.0", allow_anyone=True)  # noqa: S104
    assert everywhere.status == 204
    # A loopback address serves nobody else, whatever is allowed.
    assert (await ask(fields, allow_anyone=True)).status == 403
