"""``eventclient serve`` as a process."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eventclient.cli.serve import _rare_collections
from eventclient.client.client import EventClient
from eventclient.devserver.app import DevServer
from eventclient.errors import RejectedError
from eventclient.model.outcomes import Outcome
from eventclient.model.parsing import parse_event
from tests.support.presence import ends_by_signal

ROOT = Path(__file__).parent.parent.parent
RUN = "wrun_01HF7YAT00AAAAAAAAAAAAAAAA"
CREATED = parse_event(
    {"eventType": "run_created", "specVersion": 7, "eventData": {"deploymentId": "d", "workflowName": "w"}}
)


@asynccontextmanager
async def serving(*arguments: str, end: signal.Signals, code: int) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "eventclient", "serve", "--port", "0", "--no-access-log", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    told = (await process.stderr.readline()).decode()
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", told)
        assert url is not None, told
        yield url[0]
    finally:
        process.send_signal(end)
        out, err = await process.communicate()
    assert (process.returncode, out, err) == (code, b"", b"")


@ends_by_signal
@pytest.mark.parametrize(("end", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_it_serves_until_it_is_told_to_stop(end: signal.Signals, code: int) -> None:
    async with serving(end=end, code=code) as url, EventClient(url) as client:
        assert (await client.create(RUN, CREATED)).outcome is Outcome.CREATED


@ends_by_signal
async def test_a_file_outlives_the_server(tmp_path: Path) -> None:
    db = str(tmp_path / "log.db")
    async with serving("--db", db, end=signal.SIGTERM, code=0) as url, EventClient(url) as client:
        await client.create(RUN, CREATED)
    async with serving("--db", db, end=signal.SIGTERM, code=0) as url, EventClient(url) as client:
        assert [event.event_type for event in await client.read_log(RUN)] == ["run_created"]


@ends_by_signal
async def test_old_run_ids_are_refused_on_request() -> None:
    async with serving("--check-run-time", end=signal.SIGTERM, code=0) as url, EventClient(url) as client:
        with pytest.raises(RejectedError):
            await client.create(RUN, CREATED)


async def test_what_cannot_be_served_ends_with_2(tmp_path: Path) -> None:
    async with DevServer() as server:
        port = server.url.rpartition(":")[2]
        for arguments, told in (
            (["--port", port], f"cannot listen on 127.0.0.1 port {port}"),
            (["--port", "0", "--db", str(tmp_path / "no" / "log.db")], "log.db"),
            (["--port", "70000"], "--port"),
        ):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "eventclient", "serve", *arguments),
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            _, err = await process.communicate()
            assert process.returncode == 2
            assert told in err.decode()
            assert "Traceback" not in err.decode()


def test_the_collector_looks_seldom_while_it_serves_and_as_before_afterwards() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with _rare_collections():
        assert gc.get_threshold()[0] > before[0][0]
        assert gc.get_freeze_count() > before[1]
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
