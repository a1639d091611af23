"""The command as a process: exit codes, pure stdout, signals, missing packages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.client.client import EventClient
from eventclient.devserver.app import DevServer

ROOT = Path(__file__).parent.parent.parent
MIXED = str(ROOT / "tests" / "recordings" / "js-spec7-mixed")
FANOUT = str(ROOT / "tests" / "recordings" / "js-spec7-fanout")
RUN = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
TOKEN = "do-not-repeat-me"


async def start(
    *arguments: str,
    environment: Mapping[str, str] = MappingProxyType({}),
    stderr: int = asyncio.subprocess.PIPE,
) -> asyncio.subprocess.Process:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WORKFLOW_", "VERCEL_"))
    }
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "eventclient",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )


async def run(*arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
    process = await start(*arguments, environment=environment)
    out, err = (each.decode() for each in await process.communicate())
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def server_that(answer: Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]) -> DevServer:
    """The reference server behind something that answers some requests itself."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await answer(request, handler)

    return DevServer(middlewares=[middleware])


async def test_help_and_version() -> None:
    out, err = await run("--help")
    for part in ("replay", "serve", "Exit codes:", "130"):
        assert part in out
    assert err == ""
    for verb in ("replay", "serve"):
        assert "Exit codes:" in (await run(verb, "--help"))[0]
    assert (await run("--version"))[0].startswith("eventclient, version ")


async def test_no_verb_and_a_wrong_one_are_wrong_use() -> None:
    await run(code=2)
    await run("replai", code=2)


async def test_stdout_is_json_and_nothing_else_even_in_colour() -> None:
    out, err = await run("replay", MIXED, "--format", "json", FORCE_COLOR="1", TTY_COMPATIBLE="1")
    assert json.loads(out)["created"] == 108
    assert "\x1b" not in out + err
    assert len(out.splitlines()) == 1


async def test_to_another_server_with_a_token_that_is_never_shown() -> None:
    tokens = set()

    async def keep_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        tokens.add(request.headers.get("Authorization"))
        return await handler(request)

    async with server_that(keep_token) as server:
        out, err = await run("replay", MIXED, "--to", server.url, WORKFLOW_VERCEL_AUTH_TOKEN=TOKEN)
        assert "embedded" not in err
        assert TOKEN not in out + err
        assert tokens == {f"Bearer {TOKEN}"}
        await run("replay", FANOUT, VERCEL_WORKFLOW_SERVER_URL=server.url)
        async with EventClient(server.url) as client:
            assert len(await client.read_log(RUN)) == 8


async def test_a_token_that_is_not_accepted_stops_at_the_first_request() -> None:
    requests: list[str] = []

    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        requests.append(request.method)
        if request.method == "GET":
            return await handler(request)
        return web.json_response({"message": "who are you?", "code": "unauthorized"}, status=401)

    async with server_that(refuse) as server:
        out, err = await run("replay", MIXED, "--to", server.url, code=1)
    assert requests == ["GET", "GET", "GET", "POST"]
    assert "107 unsent" in out.splitlines()[-1]
    assert "who are you?" in err


async def test_a_spent_throttle_budget_ends_with_3_and_without_a_wait() -> None:
    async def throttle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.endswith("/batch"):
            return web.json_response({"message": "slow down"}, status=429, headers={"Retry-After": "3600"})
        return await handler(request)

    async with server_that(throttle) as server:
        out, err = await run("replay", FANOUT, "--to", server.url, "--format", "json", code=3)
    report = json.loads(out)
    assert (report["created"], report["unsent"], report["requests"]) == (2, 151, 3)
    assert "3600" in err


@pytest.mark.skipif(os.name == "nt", reason="interrupts by SIGINT, which Windows cannot send to one process")
async def test_an_interruption_tells_what_was_settled() -> None:
    hanging, released = asyncio.Event(), asyncio.Event()

    async def hang_on_batches(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.endswith("/batch"):
            hanging.set()
            await released.wait()
        return await handler(request)

    async with server_that(hang_on_batches) as server:
        process = await start("replay", FANOUT, "--to", server.url, "--format", "jsonl")
        await hanging.wait()
        process.send_signal(signal.SIGINT)
        out, err = (each.decode() for each in await process.communicate())
        released.set()
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    *events, summary = map(json.loads, out.splitlines())
    assert [event["outcome"] for event in events[:3]] == ["created", "created", "unknown"]
    assert (summary["created"], summary["unknown"], summary["unsent"]) == (2, 32, 119)


@pytest.mark.skipif(os.name == "nt", reason="runs in a pseudo terminal, which Windows does not have")
@pytest.mark.parametrize("colour", [{}, {"NO_COLOR": "1"}])
async def test_on_a_terminal_a_bar_moves_on_stderr_alone(colour: dict[str, str]) -> None:
    ours, theirs = os.openpty()
    process = await start(
        "replay", MIXED, "--format", "json", stderr=theirs, environment={"TERM": "xterm", **colour}
    )
    os.close(theirs)

    def read_all() -> bytes:
        seen = b""
        # A terminal whose other side is gone reads as an error on some systems and as nothing on others.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                seen += piece
        os.close(ours)
        return seen

    drawn, (out, _) = await asyncio.gather(asyncio.to_thread(read_all), process.communicate())
    assert json.loads(out)["created"] == 108
    assert b"/108" in drawn
    coloured = re.search(rb"\x1b\[[0-9;]*[34][0-9][0-9;]*m", drawn) is not None
    assert coloured == (not colour)


@pytest.mark.skipif(os.name == "nt", reason="closes a pipe as a POSIX shell would")
async def test_a_reader_that_goes_away_is_no_traceback() -> None:
    process = await start("replay", FANOUT, "--format", "jsonl")
    assert process.stdout is not None
    assert process.stderr is not None
    # Closed before anything is written, so that the first line meets it.
    process.stdout._transport.close()  # type: ignore[attr-defined]
    err = (await process.stderr.read()).decode()
    assert await process.wait() == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


@pytest.mark.parametrize("package", ["click", "rich"])
async def test_without_its_packages_the_command_says_what_to_install(tmp_path: Path, package: str) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('no package', name={package!r})")
    _, err = await run("--help", code=2, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert package in err
    assert "eventclient[cli]" in err


async def test_another_missing_module_is_not_taken_for_them(tmp_path: Path) -> None:
    (tmp_path / "cbor2.py").write_text("raise ModuleNotFoundError('no cbor2', name='cbor2')")
    process = await start("--help", environment={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    _, err = await process.communicate()
    assert b"no cbor2" in err
    assert b"eventclient[cli]" not in err
