"""A live server, and what is asked of its answer to any input whatever."""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from eventclient.devserver.app import DevServer
from eventclient.devserver.limits import Limits
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.wire.codec import decode
from eventclient.wire.frames import FrameDecoder
from tests.devserver.api import event, frame
from tests.fuzz.inputs import RUNS, Shot

T = TypeVar("T")

ALLOWED: Final = frozenset({200, 204, 400, 403, 404, 405, 408, 409, 410, 413, 415, 417, 425, 431})
"""Statuses that an input may meet; a fault of the server itself (500) is none of them."""
PATIENCE_S: Final = 30.0
RUN_INPUTS: Final = 500
"""How many inputs are about one and the same run."""
MAX_GROWTH: Final = 0.05
"""Which share of its objects a server may have more than after the warm-up. What it stores is in no object of
Python, in memory neither, and the page forgets: growth is a leak."""
REQUEST: Final = re.compile(
    rb"(?:\r\n)*[A-Z]+ /[!-~]* HTTP/1\.[01]\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*\r\n"
)
"""The whole head of a request."""
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class FindingError(AssertionError):
    """An input met what no input may meet."""


class Harness:
    """A server, one keep-alive connection to it, and a loop that runs while an input is dealt with.

    Args:
        place: an SQLite file for the store, which is not there yet; None is in memory.

    Attributes:
        count: inputs so far.
        statuses: how often each status was the answer; 0 is no answer to what was no request.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.count = 0
        self.statuses: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        limits = Limits(header_timeout_s=1.0, body_timeout_s=1.0, linger_s=0.05)
        store = SqliteStore(str(place)) if place is not None else None
        # The page remembers many requests; what it keeps is to be full before the warm-up is over.
        self._server = DevServer(store, limits=limits, max_kept=200)
        self._previous = b""
        self._run_id = RUNS[0]
        self._run_number = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def __enter__(self) -> Self:
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.close()

    def fire(self, shot: Shot) -> int:
        """Send one input; the status of its answer.

        Raises:
            FindingError: the answer is none, is malformed, or has a status that no input may meet.
        """
        if self.count >= self._run_number * RUN_INPUTS:
            self._run(self._begin_run())
        self.count += 1
        shot = replace(shot, data=shot.data.replace(RUNS[0].encode(), self._run_id.encode()))
        try:
            status = self._run(self._fire(shot))
        except (AssertionError, OSError, EOFError, ValueError, LookupError) as error:
            self._hang_up()
            raise FindingError(f"{error!r} for {shot.data!r} after {self._previous!r}") from error
        self._previous = shot.data
        self.statuses[status] += 1
        return status

    def check_health(self) -> None:
        """Whether the server answers.

        Raises:
            FindingError: it does not.
        """
        status = self.fire(Shot(HEALTH, True, "GET", "/healthz"))
        self.count -= 1
        self.statuses[200] -= 1
        if status != 200:
            raise FindingError(f"the server is unwell: {status}")

    def count_objects(self) -> int:
        """Objects the collector knows of, when everything is at rest."""
        self.check_health()
        gc.collect()
        return len(gc.get_objects())

    # -- inside the loop -----------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    async def _start(self) -> None:
        await self._server.__aenter__()
        created = event("run_created", deploymentId="d", workflowName="w", input=b"devl")
        for each in (created, event("run_started"), event("run_completed", output=b"devl")):
            await self._post(RUNS[1], frame(each))

    async def _begin_run(self) -> None:
        """Another run takes the place of the one that inputs are about, whose log would grow for ever."""
        self._run_id = f"wrun_{self._run_number:04}"
        self._run_number += 1
        assert len(self._run_id) == len(RUNS[0])
        created = event("run_created", deploymentId="d", workflowName="w", input=b"devl")
        for each in (created, event("run_started")):
            await self._post(self._run_id, frame(each))
        path = f"/api/v2/runs/{self._run_id}/stream/closed"
        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nX-Stream-Done: true\r\nContent-Length: 0\r\n\r\n"
        assert await self._fire(Shot(head.encode(), True, "PUT", path)) < 300

    async def _post(self, run: str, body: bytes) -> None:
        path = f"/api/v4/runs/{run}/events"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        assert await self._fire(Shot(head.encode() + body, True, "POST", path)) == 200

    async def _stop(self) -> None:
        self._hang_up()
        await self._server.aclose()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = urlsplit(self._server.url)
        return await asyncio.open_connection(place.hostname, place.port, limit=2**20)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def _fire(self, shot: Shot) -> int:
        if not shot.framed:
            return await self._fire_raw(shot)
        if self._streams is None:
            self._streams = await self._connect()
        reader, writer = self._streams
        writer.write(shot.data)
        status, fields = await _read_head(reader)
        while status == 100:
            status, fields = await _read_head(reader)
        endless = status == 200 and shot.method == "GET" and "transfer-encoding" in fields
        body = b"" if shot.method == "HEAD" or endless else await _read_body(reader, fields)
        if endless or "close" in fields.get("connection", ""):
            self._hang_up()
        _check_answer(shot, status, fields, body)
        return status

    async def _fire_raw(self, shot: Shot) -> int:
        """What is no request is sent on a connection of its own, which is then ended."""
        reader, writer = await self._connect()
        sent = shot.data + b"\r\n\r\n"
        head = REQUEST.match(sent)
        # A body is left out: the end of what is sent may cut it off, and nobody waits for an answer then.
        is_whole = head is not None and not re.search(rb"content-length|transfer-encoding", head[0], re.I)
        data = b""
        try:
            writer.write(sent)
            if is_whole:
                # Whoever stops sending before the answer is taken to be gone.
                data += await reader.read(65536)
            writer.write_eof()
            while piece := await reader.read(65536):
                data += piece
        except ConnectionError:
            # What came before counts.
            pass
        finally:
            writer.close()
        if not data:
            assert not is_whole, "no answer"
            return 0
        status = int(data.split(b" ", 2)[1])
        assert data.startswith(b"HTTP/1."), data
        assert status in ALLOWED, data
        return status


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, status, _ = lines[0].split(" ", 2)
    assert version in ("HTTP/1.1", "HTTP/1.0"), lines
    fields = {}
    for line in lines[1:-2]:
        name, colon, value = line.partition(": ")
        assert colon, lines
        fields[name.lower()] = value
    if version == "HTTP/1.0" and "connection" not in fields:
        fields["connection"] = "close"
    return int(status), fields


async def _read_body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    if "transfer-encoding" not in fields:
        return await reader.readexactly(int(fields.get("content-length", "0")))
    body = bytearray()
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return bytes(body)


def _check_answer(shot: Shot, status: int, fields: dict[str, str], body: bytes) -> None:
    assert status in ALLOWED, (status, body)
    if shot.method == "HEAD":
        return
    kind = fields.get("content-type", "").partition(";")[0]
    if status >= 400:
        assert kind == "application/json", (status, kind, body)
        refused = json.loads(body)
        assert set(refused) == {"message", "code"}, refused
        assert all(isinstance(text, str) and text for text in refused.values()), refused
    elif kind == "application/cbor" and body:
        decode(body)
    elif kind == "application/vnd.workflow.v4-frames":
        decoder = FrameDecoder()
        list(decoder.receive_data(body))
        decoder.receive_eof()
    elif kind == "application/json":
        json.loads(body)


def read_rss_kib() -> int:
    """Memory of this process, KiB; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
