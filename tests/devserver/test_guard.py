"""Who may come in: the token, and the addresses the server may listen on."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.errors import ConfigurationError
from tests.devserver.api import RUN, Api, event, frame
from tests.devserver.raw import exchange, head, request

TOKEN = "s3cret-Token"
BATCH = f"/api/v4/runs/{RUN}/events/batch"


async def with_token(session: aiohttp.ClientSession, path: str, authorization: str | None) -> Any:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with DevServer(token=TOKEN) as server:
        return await Api(session, server.url).request("GET", path, headers=headers)


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN} "])
async def test_the_token_lets_in(session: aiohttp.ClientSession, authorization: str) -> None:
    answer = await with_token(session, f"/api/v4/runs/{RUN}/events", authorization)
    assert (answer.status, answer.code) == (404, "run-not-found")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.lower()}",
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer \N{KELVIN SIGN}",
    ],
)
@pytest.mark.parametrize(
    "path", [f"/api/v4/runs/{RUN}/events", "/__faults", "/__runs", "/__live", "/nowhere"]
)
async def test_nothing_else_does(
    session: aiohttp.ClientSession, authorization: str | None, path: str
) -> None:
    answer = await with_token(session, path, authorization)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_bytes_that_are_no_text_are_no_token() -> None:
    async with DevServer(token=TOKEN) as server:
        raw = head("GET", BATCH, Authorization="Bearer \xff\xfe", Connection="close")
        assert (await exchange(server.url, raw)).code == (401, "unauthorized")


async def test_probes_need_no_token(session: aiohttp.ClientSession) -> None:
    assert (await with_token(session, "/healthz", None)).json == {"status": "ok"}


async def test_the_page_comes_without_a_token_and_tells_nothing(session: aiohttp.ClientSession) -> None:
    pages = []
    for runs in (0, 1):
        async with DevServer(token=TOKEN) as server:
            api = Api(session, server.url)
            if runs:
                body = frame(event("run_created", deploymentId="d", workflowName="w", input=b"x"))
                allowed = {"Authorization": f"Bearer {TOKEN}"}
                assert (await api.send(f"/runs/{RUN}/events", body, allowed)).status == 200
            pages.append(await api.request("GET", "/"))
    assert [page.status for page in pages] == [200, 200]
    assert pages[0].body == pages[1].body


async def test_a_stranger_is_refused_before_its_body_comes() -> None:
    async with DevServer(token=TOKEN) as server:
        # The body never comes: whoever waited for it would wait for a minute.
        answer = await exchange(server.url, head("POST", BATCH, Content_Length=1000, Connection="close"))
        assert answer.code == (401, "unauthorized")
        too_large = head("POST", BATCH, Content_Length=10**12, Connection="close")
        assert (await exchange(server.url, too_large)).code == (401, "unauthorized")


async def test_without_a_token_nobody_is_asked(api: Api) -> None:
    assert (await api.pending_run()).status == 200


async def test_the_token_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    caplog.set_level(0)
    async with DevServer(token=TOKEN, access_log=lines.append) as server:
        answers = [
            await exchange(server.url, request("GET", BATCH, Authorization=f"Bearer {TOKEN}")),
            await exchange(server.url, request("GET", BATCH, Authorization=f"Bearer {TOKEN}x")),
            await exchange(server.url, head("GET", BATCH, Authorization=f"Bearer {TOKEN}" + "x" * 9000)),
            await exchange(server.url, f"GET / HTTP/1.1\r\nBad Name: {TOKEN}\r\n\r\n".encode()),
        ]
        told = f"{server!r} {vars(server)!r}"
    assert [answer.status for answer in answers] == [404, 401, 431, 400]
    assert len(lines) >= 2
    assert TOKEN not in "".join([told, caplog.text, *lines, *(str(answer.data) for answer in answers)])


@pytest.mark.parametrize("token", ["", " ", "a b", "a\n", "\N{KELVIN SIGN}", "a\x00"])
def test_tokens_that_no_header_can_hold_are_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="printable ASCII") as refused:
        DevServer(token=token)
    assert not token.strip() or token not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses_need_no_token(host: str) -> None:
    DevServer(host=host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "192.0.2.1", "example.org", "127.0.0.1.example.org"],  # noqa: S104
)
def test_other_addresses_need_a_token_or_a_word(host: str) -> None:
    with pytest.raises(ConfigurationError, match=host or "every address"):
        DevServer(host=host)
    DevServer(host=host, token=TOKEN)
    DevServer(host=host, allow_anyone=True)
