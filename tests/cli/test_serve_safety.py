"""``eventclient serve``: the token, the address, and the file of faults."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.cli.test_serve import ROOT, serving
from tests.support.presence import ends_by_signal

EXAMPLE = Path(__file__).parent.parent / "devserver" / "fault_scripts" / "every_kind.toml"


async def status_of(url: str, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/__faults", headers=headers) as response,
    ):
        return response.status


async def run_to_the_end(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0", *arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    _, err = await process.communicate()
    assert "Traceback" not in err.decode()
    return process.returncode, err.decode()


@ends_by_signal
async def test_a_token_is_asked_for() -> None:
    async with serving("--token", "s3cret", end=signal.SIGTERM, code=0) as url:
        assert await status_of(url) == 401
        assert await status_of(url, "s3cret") == 200


@ends_by_signal
async def test_the_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTCLIENT_SERVE_TOKEN", "s3cret")
    async with serving(end=signal.SIGTERM, code=0) as url:
        assert await status_of(url) == 401
        assert await status_of(url, "s3cret") == 200


@ends_by_signal
async def test_faults_come_from_a_file() -> None:
    async with (
        serving("--faults", str(EXAMPLE), end=signal.SIGTERM, code=0) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/__faults") as response,
    ):
        report = await response.json()
    assert report["seed"] == 7
    assert [rule["name"] for rule in report["rules"]][:2] == ["busy", "firewall"]


async def test_what_cannot_be_served_safely_ends_with_2(tmp_path: Path) -> None:
    wrong = tmp_path / "faults.toml"
    for text, told in (
        (
            "[[rule]]\nfault = 'throttle'\nretry = 1\n",
            f"{wrong}: rule 1: retry: is unknown; the keys are name, ",
        ),
        ("[[rule]]\nfault = 'drop'\nroute = 'batsh'\n", f"{wrong}: rule 1: route: 'batsh' is none of "),
        ("[[rule]\n", f"{wrong}: "),
    ):
        wrong.write_text(text)
        code, err = await run_to_the_end("--faults", str(wrong))
        assert (code, told in err) == (2, True), err
    for arguments, told in (
        (["--faults", str(tmp_path / "missing.toml")], "missing.toml"),
        (
            ["--host", "192.0.2.1"],
            "192.0.2.1 is no loopback address: set a token (--token), or let anyone come in",
        ),
        (["--dsn", " "], "--dsn, or EVENTCLIENT_SERVE_DSN, is empty"),
        (["--token", "two words"], "the token has to be printable ASCII"),
    ):
        code, err = await run_to_the_end(*arguments)
        assert (code, told in err, "two words" in err) == (2, True, False), err


async def test_anyone_may_be_allowed_in() -> None:
    code, err = await run_to_the_end("--host", "192.0.2.1", "--allow-anyone")
    # The address belongs to nobody, so listening fails; what matters is that it was tried.
    assert code == 2
    assert "cannot listen on 192.0.2.1" in err
