"""The access log of ``eventclient serve``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from eventclient.cli.main import cli

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")


@asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    told = (await process.stderr.readline()).decode()
    url = re.search(r"http://127\.0\.0\.1:\d+", told)
    assert url is not None, told
    try:
        yield url[0], process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def ask(url: str, count: int = 1) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.get(f"{url}/healthz") as response:
                assert response.status == 200


async def test_it_goes_to_stdout_line_by_line() -> None:
    async with serving() as (url, process):
        await ask(url)
        assert process.stdout is not None
        line = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        assert (line["path"], line["status"]) == ("/healthz", 200)


async def test_a_file_is_added_to(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    for _ in range(2):
        async with serving("--access-log", str(file)) as (url, process):
            await ask(url, 2)
            process.send_signal(signal.SIGTERM)
            assert await process.communicate() == (b"", b"")
    assert [json.loads(line)["route"] for line in file.read_text().splitlines()] == ["health"] * 4


async def test_it_can_be_left_out() -> None:
    async with serving("--no-access-log") as (url, process):
        await ask(url)
        process.send_signal(signal.SIGTERM)
        assert await process.communicate() == (b"", b"")
        assert process.returncode == 0


async def test_a_reader_that_goes_away_does_not_end_the_server() -> None:
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0"),
        stdout=writer,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(writer)
    assert process.stderr is not None
    told = (await process.stderr.readline()).decode()
    os.close(reader)
    url = re.search(r"http://127\.0\.0\.1:\d+", told)
    assert url is not None, told
    await ask(url[0], 3)
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert process.returncode == 0
    assert err.decode().splitlines() == ["the access log ends here, it cannot be written: Broken pipe"]


def test_a_file_that_cannot_be_written_ends_it_with_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["serve", "--port", "0", "--access-log", str(tmp_path / "no" / "log")])
    assert result.exit_code == 2
    assert "cannot write the access log" in result.stderr


def test_there_is_a_log_or_there_is_none(tmp_path: Path) -> None:
    arguments = ["serve", "--port", "0", "--no-access-log", "--access-log", str(tmp_path / "log")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr
