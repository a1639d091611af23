"""How many events per second the reference server takes, and whether it keeps them all.

Run it as ``python tests/bench/server_writes.py [--postgres] [--race] [--writers W] [--runs R] ...``.

A server runs in a process of its own, on a file with full synchronisation, or (``--postgres``) on a private
PostgreSQL cluster that waits for the disk. W writers, each on a connection of its own, post batches of
`step_created` with a small payload, one after the other, spread over R runs. The requests are encoded
before the clock starts and the answers decoded after it stopped: the writers leave the machine to the server.

With ``--race`` all writers write 1,000 batches each to one run. Then the log is listed over HTTP: it has to
be dense, and to hold each event that was answered with 200 once, at the slot that was answered, and nothing
else. The exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from eventclient.model.parsing import parse_event
from eventclient.wire.codec import decode
from eventclient.wire.frames import decode_frames
from eventclient.wire.requests import encode_event
from tests.support.postgres_cluster import running_cluster
from tests.support.server_process import server_process

WHEN = datetime(2026, 11, 30, 2, 8, 43, 611000, tzinfo=UTC)
PLACEHOLDER = "step_00000000000000000000000000"
PAYLOAD = b"devl" + b"x" * 60
HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    "Content-Length: {length}\r\n\r\n"
)
WARM_UP = 3
RACE_BATCHES = 1000


@dataclass(frozen=True)
class Options:
    """What to measure; see the command line."""

    writers: int
    runs: int
    batches: int
    events: int
    processes: int


@dataclass
class Writer:
    """One connection's worth of requests, and their answers."""

    run_id: str
    requests: Sequence[bytes]
    answers: list[bytes] = field(default_factory=list)
    spent_s: list[float] = field(default_factory=list)


def encode_single(event_type: str, **data: Any) -> bytes:
    mapping = {"eventType": event_type, "specVersion": 7, "occurredAt": WHEN, "eventData": data}
    return encode_event(parse_event(mapping), now=WHEN).single_frame()


def step_frame() -> bytes:
    data = {"stepName": "step//./workflows/flows//add", "workflowName": "flow", "input": PAYLOAD}
    mapping = {"eventType": "step_created", "correlationId": PLACEHOLDER, "specVersion": 7, "eventData": data}
    return encode_event(parse_event({**mapping, "occurredAt": WHEN}), now=WHEN, batch=True).batch_frame()


def correlation_id(writer: int, batch: int, index: int) -> str:
    return f"step_{writer:010d}{batch:010d}{index:06d}"


def make_writers(options: Options) -> list[Writer]:
    """Writers with their encoded requests, those of the warm-up first."""
    template = step_frame()
    writers = []
    for writer in range(options.writers):
        run_id = f"wrun_{writer % options.runs:026d}"
        requests = []
        for batch in range(WARM_UP + options.batches):
            names = (correlation_id(writer, batch, index) for index in range(options.events))
            body = b"".join(template.replace(PLACEHOLDER.encode(), name.encode()) for name in names)
            head = HEAD.format(path=f"/api/v4/runs/{run_id}/events/batch", length=len(body))
            requests.append(head.encode() + body)
        writers.append(Writer(run_id, requests))
    return writers


class Connection(asyncio.Protocol):
    """Posts a request and hands over the body of the answer, doing as little as HTTP allows."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answered: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._buffer[:head_end]).lower()
        end = head_end + 4 + int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) < end:
            return
        body = bytes(self._buffer[head_end + 4 : end])
        del self._buffer[:end]
        assert self._answered is not None
        if head.startswith(b"http/1.1 200"):
            self._answered.set_result(body)
        else:
            self._answered.set_exception(
                RuntimeError(f"refused: {head.decode()} {body.decode(errors='replace')}")
            )

    async def post(self, request: bytes) -> bytes:
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(url: str) -> Connection:
    host, _, port = urlsplit(url).netloc.partition(":")
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, int(port))
    return connection


async def write(connection: Connection, writer: Writer, first: int, last: int) -> None:
    for request in writer.requests[first:last]:
        began = time.perf_counter()
        writer.answers.append(await connection.post(request))
        writer.spent_s.append(time.perf_counter() - began)


async def create_runs(url: str, run_ids: set[str]) -> None:
    created = encode_single("run_created", deploymentId="d", workflowName="flow", input=PAYLOAD)
    async with aiohttp.ClientSession() as session:
        for run_id in sorted(run_ids):
            for event_type, body in (("run_created", created), ("run_started", encode_single("run_started"))):
                address = f"{url}/api/v4/runs/{run_id}/events/{event_type}"
                headers = {"Content-Type": "application/octet-stream"}
                async with session.post(address, data=body, headers=headers) as response:
                    response.raise_for_status()


async def measure(urls: Sequence[str], writers: Sequence[Writer], options: Options) -> None:
    """Let all writers write, and print how fast it went."""
    await create_runs(urls[0], {writer.run_id for writer in writers})
    connections = [await connect(urls[number % len(urls)]) for number in range(len(writers))]
    pairs = list(zip(connections, writers, strict=True))
    await asyncio.gather(*(write(*pair, 0, WARM_UP) for pair in pairs))
    for writer in writers:
        writer.spent_s.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write(*pair, WARM_UP, WARM_UP + options.batches) for pair in pairs))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for connection in connections:
        connection.close()
    batches = options.writers * options.batches
    spent = sorted(each for writer in writers for each in writer.spent_s)
    median_ms, most_ms = (spent[len(spent) * part // 100] * 1e3 for part in (50, 99))
    print(
        f"  {batches * options.events / wall:>9,.0f} events/s in {batches:,} batches of {options.events}"
        f" ({batches / wall:,.0f} batches/s), {wall:.1f} s\n"
        f"  a batch took {median_ms:.1f} ms (median), {most_ms:.1f} ms (99 of 100);"
        f" the writers used {100 * cpu / wall:.0f} % of a core"
    )


def answered_slots(writers: Sequence[Writer]) -> tuple[dict[str, str], Counter[int]]:
    """Correlation id -> event id of all that was answered with 200, and how often each status came."""
    slots: dict[str, str] = {}
    statuses: Counter[int] = Counter()
    for writer in writers:
        for answer in writer.answers:
            for result in decode(answer)["results"]:
                statuses[result["status"]] += 1
                if result["status"] == 200:
                    event = result["event"]
                    slots[event["correlationId"]] = event["eventId"]
    return slots, statuses


async def listed_events(url: str, run_id: str) -> AsyncIterator[dict[str, Any]]:
    """The metas of a run's log, page by page."""
    cursor = ""
    async with aiohttp.ClientSession() as session:
        while True:
            address = f"{url}/api/v4/runs/{run_id}/events?limit=1000{cursor}"
            async with session.get(
                address, headers={"Accept": "application/vnd.workflow.v4-frames"}
            ) as response:
                response.raise_for_status()
                *frames, last = decode_frames(await response.read())
            for frame in frames:
                yield frame.meta
            if not last.meta["hasMore"]:
                return
            cursor = f"&cursor={last.meta['next']}"


async def verify(url: str, writers: Sequence[Writer]) -> list[str]:
    """What is wrong with the log of the one run that all writers wrote to."""
    answered, statuses = answered_slots(writers)
    posted = sum(statuses.values())
    wrong = [] if statuses == Counter({200: posted}) else [f"statuses {dict(statuses)}"]
    listed: dict[str, str] = {}
    count = doubled = gaps = 0
    async for meta in listed_events(url, writers[0].run_id):
        count += 1
        gaps += meta["eventId"] != f"evnt_{count:026d}"
        if "correlationId" in meta:
            doubled += meta["correlationId"] in listed
            listed[meta["correlationId"]] = meta["eventId"]
    if gaps:
        wrong.append(f"{gaps} events are not at the slot that follows the one before")
    if doubled:
        wrong.append(f"{doubled} events are there twice")
    lost = sum(listed.get(name) != slot for name, slot in answered.items())
    if lost:
        wrong.append(f"{lost} events are not where it was answered that they are")
    if count != posted + 2 or len(listed) != len(answered):
        wrong.append(f"{count} events are listed, {posted} were posted and 2 began the run")
    verdict = "; ".join(wrong) or "dense, none lost, none doubled"
    print(f"  {posted:,} events posted, {count:,} listed: {verdict}")
    return wrong


@asynccontextmanager
async def serving(arguments: Sequence[str], processes: int) -> AsyncIterator[list[str]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(server_process(*arguments)) for _ in range(processes)]


async def bench(arguments: Sequence[str], options: Options, *, race: bool) -> int:
    writers = make_writers(options)
    async with serving(arguments, options.processes) as urls:
        await measure(urls, writers, options)
        wrong = await verify(urls[0], writers) if race else []
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  the server processes used {used.ru_utime + used.ru_stime:.1f} s of CPU, start and end included")
    return 1 if wrong else 0


def sync_ms(folder: Path, count: int = 50) -> float:
    """What the disk takes to keep a small write, in milliseconds: the median."""
    spent = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - began)
    return sorted(spent)[count // 2] * 1e3


@contextmanager
def place(db: Path | None, *, postgres: bool) -> Iterator[list[str]]:
    """Where the server keeps everything, as options of ``serve``; told, with the speed of the disk."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = db.parent if db is not None else Path(temporary)
        kind = "PostgreSQL" if postgres else "SQLite"
        print(f"{kind}; a write of 4 KiB is on disk in {sync_ms(folder):.2f} ms")
        if not postgres:
            yield ["--db", str(db or folder / "runs.db")]
            return
        with running_cluster(durable=True) as cluster:
            yield ["--dsn", cluster.fresh_database()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--db", type=Path, help="SQLite file, which must not exist; a temporary one by default"
    )
    parser.add_argument("--postgres", action="store_true", help="on a private PostgreSQL cluster")
    parser.add_argument("--race", action="store_true", help="all on one run, then look for what is missing")
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--batches", type=int, help=f"of each writer: 40, or {RACE_BATCHES} in a race")
    parser.add_argument("--events", type=int, help="in a batch: 32, or 2 in a race")
    parser.add_argument("--processes", type=int, default=1, help="servers on the one database")
    given = parser.parse_args()
    options = Options(
        writers=given.writers,
        runs=1 if given.race else given.runs,
        batches=given.batches or (RACE_BATCHES if given.race else 40),
        events=given.events or (2 if given.race else 32),
        processes=given.processes,
    )
    with place(given.db, postgres=given.postgres) as arguments:
        print(f"{options.writers} writers on {options.runs} runs, {options.processes} server processes")
        return asyncio.run(bench(arguments, options, race=given.race))


if __name__ == "__main__":
    sys.exit(main())
