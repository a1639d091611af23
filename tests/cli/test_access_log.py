"""The access log of ``eventclient serve``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from eventclient.cli.access_log import LogWriter
from eventclient.cli.main import cli
from tests.support.presence import ends_by_signal, needs_nonblocking_pipes

ROOT = Path(__file__).parent.parent.parent


async def start(stdout: int, *arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """A server process that writes to `stdout`, and its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0", *arguments),
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    told = (await process.stderr.readline()).decode()
    url = re.search(r"http://127\.0\.0\.1:\d+", told)
    assert url is not None, told
    return process, url[0]


@asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process, url = await start(asyncio.subprocess.PIPE, *arguments)
    try:
        yield url, process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def ask(url: str, count: int = 1) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.get(f"{url}/healthz") as response:
                assert response.status == 200


@ends_by_signal
async def test_it_goes_to_stdout_line_by_line() -> None:
    async with serving() as (url, process):
        await ask(url)
        assert process.stdout is not None
        line = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        assert (line["path"], line["status"]) == ("/healthz", 200)


@ends_by_signal
async def test_a_file_is_added_to(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    for _ in range(2):
        async with serving("--access-log", str(file)) as (url, process):
            await ask(url, 2)
            process.send_signal(signal.SIGTERM)
            assert await process.communicate() == (b"", b"")
    assert [json.loads(line)["route"] for line in file.read_text().splitlines()] == ["health"] * 4


@ends_by_signal
async def test_it_can_be_left_out() -> None:
    async with serving("--no-access-log") as (url, process):
        await ask(url)
        process.send_signal(signal.SIGTERM)
        assert await process.communicate() == (b"", b"")
        assert process.returncode == 0


@ends_by_signal
async def test_a_reader_that_goes_away_does_not_end_the_server() -> None:
    reader, writer = os.pipe()
    process, url = await start(writer)
    os.close(writer)
    os.close(reader)
    await ask(url, 3)
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert process.returncode == 0
    assert err.decode().splitlines() == ["the access log ends here, it cannot be written: Broken pipe"]


@ends_by_signal
async def test_a_reader_that_never_reads_stops_neither_the_server_nor_its_end() -> None:
    reader, writer = os.pipe()
    process, url = await start(writer)
    os.close(writer)
    try:
        # Far more than a pipe holds.
        await asyncio.wait_for(ask(url, 2000), 60)
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(reader)
    assert process.returncode == 0
    assert err.decode().splitlines() == ["the end of the access log is missing, nobody reads it"]


# -- the writer alone --------------------------------------------------------------------------

LINES = [json.dumps({"line": number, "filler": "x" * 200}) for number in range(3000)]


def read_after(writer: LogWriter, reader: int) -> list[dict[str, Any]]:
    """Read what the writer writes until it has closed its end."""
    with ThreadPoolExecutor(1) as pool, open(reader, "rb") as opened:
        closed = pool.submit(writer.close, 30)
        data = opened.read()
        closed.result()
    return [json.loads(line) for line in data.splitlines()]


@needs_nonblocking_pipes
@pytest.mark.parametrize("blocking", [True, False])
def test_what_waits_for_its_reader_comes_whole_and_in_order(blocking: bool) -> None:
    reader, end = os.pipe()
    os.set_blocking(end, blocking)
    writer = LogWriter(FileIO(end, "w"))
    for line in LINES:
        writer.take(line)
    assert [told["line"] for told in read_after(writer, reader)] == list(range(3000))


@needs_nonblocking_pipes
@pytest.mark.parametrize("blocking", [True, False])
def test_what_is_too_much_is_counted_where_it_is_missing(blocking: bool) -> None:
    reader, end = os.pipe()
    os.set_blocking(end, blocking)
    writer = LogWriter(FileIO(end, "w"), max_waiting_bytes=50_000)
    for line in LINES:
        writer.take(line)
    told = read_after(writer, reader)
    at = 0
    for each in told:
        assert each.get("line", at) == at
        at += each.get("dropped", 1)
    assert at == 3000
    assert 0 < sum("dropped" in each for each in told) < len(told)
    assert sum(each.get("dropped", 0) for each in told) > 1000


@needs_nonblocking_pipes
def test_an_end_that_nobody_reads_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    reader, end = os.pipe()
    writer = LogWriter(FileIO(end, "w"))
    for line in LINES:
        writer.take(line)
    writer.close(0)
    assert capsys.readouterr().err == "the end of the access log is missing, nobody reads it\n"
    assert [told["line"] for told in read_after(writer, reader)] == list(range(3000))


def test_a_file_that_cannot_be_written_ends_it_with_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["serve", "--port", "0", "--access-log", str(tmp_path / "no" / "log")])
    assert result.exit_code == 2
    assert "cannot write the access log" in result.stderr


def test_there_is_a_log_or_there_is_none(tmp_path: Path) -> None:
    arguments = ["serve", "--port", "0", "--no-access-log", "--access-log", str(tmp_path / "log")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr
