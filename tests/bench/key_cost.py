"""What a key costs: the same writes without a key, with one that is recorded, and with one that is fenced.

Run it as ``python tests/bench/key_cost.py [--postgres] [--rounds N] [--requests M]``.

For each way there is a server in this process, on a file with full synchronisation or (``--postgres``) in a
private PostgreSQL cluster that waits for the disk. One caller posts requests, one after the other: single
`step_created` posts, then batches of 32 of them, each under a key of its own. The ways take turns within
each round, and each is compared with the way without a key of the same round. Time is the wall time of a post
as its caller sees it; CPU is that of the whole process, caller included. At the end the size of a record is
told.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.devserver.state import State, Wanted
from eventclient.devserver.store import Decision, Store
from eventclient.devserver.stores import STORES
from eventclient.model.parsing import parse_event
from eventclient.wire.requests import encode_event
from tests.bench.server_writes import PLACEHOLDER, WHEN, create_runs, step_frame
from tests.support.postgres_cluster import running_cluster

RUN = f"wrun_{1:026d}"
SIZES = (1, 32)
WAYS = tuple(Protection)


@dataclass
class Way:
    """A server, and what its posts took in each round, by the number of events in a post."""

    protection: Protection
    store: Store
    server: DevServer
    wall_us: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})
    cpu_us: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})


def single_frame(name: str) -> bytes:
    data = {"stepName": "step//./workflows/flows//add", "workflowName": "flow", "input": b"devl" + b"x" * 60}
    mapping: dict[str, Any] = {"eventType": "step_created", "correlationId": name, "specVersion": 7}
    return encode_event(
        parse_event({**mapping, "occurredAt": WHEN, "eventData": data}), now=WHEN
    ).single_frame()


def bodies(size: int, requests: int, numbers: Iterator[int]) -> Sequence[bytes]:
    names = [[f"step_{next(numbers):026d}" for _ in range(size)] for _ in range(requests)]
    if size == 1:
        return [single_frame(name) for (name,) in names]
    template = step_frame()
    return [
        b"".join(template.replace(PLACEHOLDER.encode(), name.encode()) for name in each) for each in names
    ]


async def post_all(session: aiohttp.ClientSession, way: Way, size: int, posts: Sequence[bytes]) -> None:
    """Post one after the other and note what each took on average."""
    url = f"{way.server.url}/api/v4/runs/{RUN}/events/{'step_created' if size == 1 else 'batch'}"
    wall, cpu = time.perf_counter(), time.process_time()
    for number, body in enumerate(posts):
        headers = {"Content-Type": "application/octet-stream", "Idempotency-Key": f'"{wall}-{number}"'}
        async with session.post(url, data=body, headers=headers) as response:
            response.raise_for_status()
            await response.read()
    way.wall_us[size].append((time.perf_counter() - wall) / len(posts) * 1e6)
    way.cpu_us[size].append((time.process_time() - cpu) / len(posts) * 1e6)


async def record_sizes(way: Way, session: aiohttp.ClientSession, numbers: Iterator[int]) -> dict[int, int]:
    """The bytes of the recorded answer to a post of each size."""
    sizes = {}
    for size in SIZES:
        await post_all(session, way, size, bodies(size, 1, numbers))
        url = f"{way.server.url}/api/v4/runs/{RUN}/events/{'step_created' if size == 1 else 'batch'}"
        headers = {"Content-Type": "application/octet-stream", "Idempotency-Key": f'"size-{size}"'}
        async with session.post(url, data=bodies(size, 1, numbers)[0], headers=headers) as response:
            response.raise_for_status()
        wanted = Wanted(run_id=RUN, keys=frozenset({f"size-{size}"}))
        state = await way.store.change(wanted, _look)
        sizes[size] = len(state.records[f"size-{size}"].answer or b"")
    return sizes


def _look(state: State) -> Decision[State]:
    return Decision(state)


async def bench(places: Sequence[str], kind: str, rounds: int, requests: int) -> None:
    numbers = count()
    async with AsyncExitStack() as stack:
        ways = []
        for protection, place in zip(WAYS, places, strict=True):
            store = STORES[kind](place)
            server = DevServer(store, hidden=Hidden(protection=protection))
            ways.append(Way(protection, store, await stack.enter_async_context(server)))
            await create_runs(server.url, {RUN})
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for number in range(rounds + 1):
            for size in SIZES:
                for way in ways:
                    await post_all(
                        session, way, size, bodies(size, requests if size == 1 else requests // 5, numbers)
                    )
            if number == 0:
                # The first round warms up.
                for way in ways:
                    for size in SIZES:
                        way.wall_us[size].clear()
                        way.cpu_us[size].clear()
        report(ways)
        sizes = await record_sizes(ways[0], session, numbers)
    print("  recorded answer: " + ", ".join(f"{size} events {each:,} bytes" for size, each in sizes.items()))


def report(ways: Sequence[Way]) -> None:
    (plain,) = (way for way in ways if way.protection is Protection.NONE)
    for size in SIZES:
        for way in sorted(ways, key=lambda way: way is not plain):
            told = []
            for name, mine, base in (
                ("wall", way.wall_us[size], plain.wall_us[size]),
                ("CPU", way.cpu_us[size], plain.cpu_us[size]),
            ):
                ratios = sorted(each / other for each, other in zip(mine, base, strict=True))
                least, most = ratios[0], ratios[-1]
                told.append(f"{name} {median(mine):7,.0f} us, {median(ratios):.2f} ({least:.2f}..{most:.2f})")
            print(f"  {size:2} events, {way.protection:8}: {'; '.join(told)}")


@contextmanager
def three_places(*, postgres: bool) -> Iterator[list[str]]:
    if postgres:
        with running_cluster(durable=True) as cluster:
            yield [cluster.fresh_database() for _ in WAYS]
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield [str(Path(folder) / f"{way}.db") for way in WAYS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--postgres", action="store_true", help="in a private PostgreSQL cluster")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=200, help="single posts in a round; fewer batches")
    given = parser.parse_args()
    print(f"{'PostgreSQL' if given.postgres else 'SQLite'}: a post, and its ratio to the same without a key")
    with three_places(postgres=given.postgres) as places:
        kind = "postgresql" if given.postgres else "sqlite"
        asyncio.run(bench(places, kind, given.rounds, given.requests))


if __name__ == "__main__":
    main()
