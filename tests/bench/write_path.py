"""What `create_batch` costs beside a bare floor: events per second and client CPU per event.

Run it as ``python tests/bench/write_path.py [--rounds N] [--requests N]``.

A second process answers every batch of 32 with the same bytes. In this process the floor does what no client
can do without (encode the metas with cbor2, post with aiohttp, decode the answer with cbor2) and checks
nothing; `create_batch` does the same with all its rules. Both run in turn within each round, in an order that
alternates, so that a drift of the machine's speed meets both. The ratio is taken round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import aiohttp
import cbor2

from eventclient import Event, EventClient, Outcome, parse_event
from eventclient.wire.codec import encode_value

EVENTS = 32
RUN = "wrun_01M8N3CBJFGCK98VP8CKHQXT84"
WHEN = datetime(2026, 11, 30, 2, 8, 43, 611000, tzinfo=UTC)
STEP_NAME = "step//./workflows/flows//add"
WORKFLOW_NAME = "workflow//./workflows/flows//fanout"
PAYLOAD = b"devl" + b"x" * 96


def correlation_id(index: int) -> str:
    return f"step_01M8N3CBJFKDMR05A0CN7T{index:04d}"


def make_events() -> list[Event]:
    """A completed fan-out of 32 steps."""
    return [
        parse_event(
            {
                "eventType": "step_completed",
                "correlationId": correlation_id(index),
                "specVersion": 7,
                "occurredAt": WHEN,
                "eventData": {"stepName": STEP_NAME, "workflowName": WORKFLOW_NAME, "result": PAYLOAD},
            }
        )
        for index in range(EVENTS)
    ]


def make_answer() -> bytes:
    """What a server answers to the batch of `make_events`: an event and a step in each result."""
    results = []
    for index in range(EVENTS):
        event = {
            "eventType": "step_completed",
            "runId": RUN,
            "eventId": f"evnt_{index + 53:026d}",
            "correlationId": correlation_id(index),
            "createdAt": WHEN,
            "specVersion": 7,
            "eventData": {"stepName": STEP_NAME, "workflowName": WORKFLOW_NAME},
        }
        step = {
            "runId": RUN,
            "stepId": correlation_id(index),
            "stepName": STEP_NAME,
            "status": "completed",
            "attempt": 1,
            "createdAt": WHEN,
            "updatedAt": WHEN,
            "startedAt": WHEN,
            "completedAt": WHEN,
            "specVersion": 7,
        }
        results.append({"status": 200, "event": event, "step": step})
    return encode_value({"results": results})


class ConstantAnswer(asyncio.Protocol):
    """Answers each POST with the same bytes, doing as little as HTTP allows."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head_end = self._buffer.find(b"\r\n\r\n")
            if head_end < 0:
                return
            head = self._buffer[:head_end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            end = head_end + 4 + length
            if len(self._buffer) < end:
                return
            self._buffer = self._buffer[end:]
            assert self._transport is not None
            self._transport.write(self._answer)


async def serve() -> None:
    body = make_answer()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/cbor\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = head.encode() + body
    server = await asyncio.get_running_loop().create_server(lambda: ConstantAnswer(answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def floor_metas() -> list[dict[str, object]]:
    when = cbor2.CBORTag(1, WHEN.timestamp())
    return [
        {
            "eventType": "step_completed",
            "specVersion": 7,
            "correlationId": correlation_id(index),
            "occurredAt": when,
            "remoteRefBehavior": "lazy",
            "stepName": STEP_NAME,
            "workflowName": WORKFLOW_NAME,
        }
        for index in range(EVENTS)
    ]


async def floor_post(session: aiohttp.ClientSession, url: str, metas: Sequence[dict[str, object]]) -> None:
    parts = []
    for meta in metas:
        encoded = cbor2.dumps(meta)
        parts += [len(encoded).to_bytes(4, "big"), encoded, len(PAYLOAD).to_bytes(4, "big"), PAYLOAD]
    headers = {"Content-Type": "application/octet-stream"}
    async with session.post(url, data=b"".join(parts), headers=headers) as response:
        cbor2.loads(await response.read())


async def measure(post: Callable[[], Awaitable[None]], requests: int, in_flight: int) -> tuple[float, float]:
    """Events per second and microseconds of CPU per event over `requests` posts."""
    left = iter(range(requests))

    async def worker() -> None:
        for _ in left:
            await post()

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return requests * EVENTS / wall, cpu / (requests * EVENTS) * 1e6


async def bench(port: int, rounds: int, requests: int) -> None:
    origin = f"http://127.0.0.1:{port}"
    url = f"{origin}/api/v4/runs/{RUN}/events/batch"
    events, metas = make_events(), floor_metas()
    async with EventClient(origin) as client, aiohttp.ClientSession() as session:
        for in_flight in (1, 8):

            async def floor() -> None:
                await floor_post(session, url, metas)

            async def ours(concurrency: int = in_flight) -> None:
                # More than one batch under way on a run is what `concurrency` asks for.
                result = await client.create_batch(RUN, events, concurrency=concurrency)
                assert result[-1].outcome is Outcome.CREATED

            pairs = []
            for number in range(-1, rounds):
                order = [("floor", floor), ("create_batch", ours)][:: 1 if number % 2 else -1]
                figures = {name: await measure(post, requests, in_flight) for name, post in order}
                if number >= 0:
                    pairs.append(figures)
            report(in_flight, pairs)


def report(in_flight: int, pairs: Sequence[dict[str, tuple[float, float]]]) -> None:
    print(f"{in_flight} in flight, {len(pairs)} rounds")
    for name in ("floor", "create_batch"):
        rates = [pair[name][0] for pair in pairs]
        cpus = [pair[name][1] for pair in pairs]
        print(
            f"  {name:<13} {statistics.median(rates):>9,.0f} events/s"
            f"   CPU per event {statistics.median(cpus):6.2f} us ({min(cpus):.2f}..{max(cpus):.2f})"
        )
    ratios = [pair["create_batch"][1] / pair["floor"][1] for pair in pairs]
    print(
        f"  CPU ratio create_batch / floor: median {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f}..{max(ratios):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=300, help="posts in each measurement")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop (extra: speed)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        loop_factory = None
        if arguments.uvloop:
            import uvloop

            loop_factory = uvloop.new_event_loop
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(bench(port, arguments.rounds, arguments.requests))
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


if __name__ == "__main__":
    main()
