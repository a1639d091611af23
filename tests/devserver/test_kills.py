"""The server is killed, again and again, while clients write: what they were told is true afterwards.

Real processes are killed, so time is real here: a process takes as long to start as it takes, and a claim of
a dead one lapses after `LEASE_S` by the clock of the next.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from eventclient import ClientOptions, Event, EventClient, EventClientError, Outcome, Receipt, RetryOptions
from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import payload_of
from eventclient.model.ids import slot_of
from eventclient.model.parsing import parse_event
from eventclient.policy.classify import FailureClass
from tests.devserver.conftest import empty
from tests.support.killable_server import KillableServer

RUNS: Final = ("even", "odd")
WRITERS: Final = 4
KILLS: Final = 3
LEASE_S: Final = 1.0
PATIENCE_S: Final = 240
"""Whoever is not through by then is held up for good."""
SEED: Final = 20_261_130

RETRY: Final = RetryOptions(transient_retries=8, backoff_s=0.1)
"""Half a minute of attempts: longer than a process takes to come back."""

Name = tuple[str, str | None, bytes]
"""What an event is told by: type, correlation id, payload. No two are alike."""


def make(kind: str, name: str | None, **data: Any) -> Event:
    mapping: dict[str, Any] = {"eventType": kind, "specVersion": 7, "eventData": data}
    return parse_event(mapping if name is None else {**mapping, "correlationId": name})


def name_of(event: Event) -> Name:
    return event.event_type, event.correlation_id, payload_of(event)


def name_of_stored(event: StoredEvent) -> Name:
    return event.event_type, event.correlation_id, event.payload or b""


@dataclass(slots=True)
class Writer:
    """Writes batches and single events, one call after the other, and keeps what it is told.

    Attributes:
        told: set whenever a call has ended.
    """

    number: int
    client: EventClient
    receipts: list[Receipt] = field(default_factory=list)
    calls: int = 0
    told: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def run(self) -> str:
        return RUNS[self.number % len(RUNS)]

    async def write_until(self, enough: asyncio.Event) -> None:
        await self.write([make("step_created", self.retried, stepName="s")])
        while not enough.is_set():
            self.calls += 1
            await self.write(self.events())

    async def write(self, events: list[Event]) -> None:
        try:
            if len(events) == 1:
                self.receipts.append(await self.client.create(self.run, events[0]))
            else:
                self.receipts += await self.client.create_batch(self.run, events)
        except EventClientError as error:
            self.receipts += error.receipts
        self.told.set()

    @property
    def retried(self) -> str:
        """A step of its own: it is retried all the time, which nothing but a key keeps from doubling."""
        return f"retried_{self.number}"

    def events(self) -> list[Event]:
        """Those of the next call: one in three writes a single event."""
        mark = f"{self.number}_{self.calls}"
        retry = make("step_retrying", self.retried, stepName="s", error=mark.encode())
        if self.calls % 3 == 0:
            return [retry]
        steps = [f"{mark}_{index}" for index in range(3)]
        pairs = [
            event
            for step in steps
            for event in (make("step_created", step, stepName="s", input=b"i"), make("step_started", step))
        ]
        return [retry, *pairs, make("wait_created", mark, resumeAt="2026-03-04T05:06:07Z")]


async def one_more_each(writers: list[Writer]) -> None:
    """Return when a call of each of the writers has ended."""
    for writer in writers:
        writer.told.clear()
    for writer in writers:
        await writer.told.wait()


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[list[EventClient]]:
    made = [EventClient(url, options=ClientOptions(retry=RETRY)) for _ in range(WRITERS)]
    try:
        yield made
    finally:
        for client in made:
            await client.aclose(within=0)


@pytest.mark.parametrize("store", ["file", "postgres"])
async def test_what_was_acknowledged_is_there_after_kill_9(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = ["--db", str(tmp_path / "runs.db")]
    if store == "postgres":
        place = ["--dsn", request.getfixturevalue("shared_dsn")]
        await empty(place[1])
    chance = random.Random(SEED)
    async with (
        KillableServer(*place, "--lease", str(LEASE_S), "--deadline", "1") as server,
        clients(server.url) as made,
    ):
        for run in RUNS:
            start = make("run_started", None, deploymentId="d", workflowName="w", input=b"i")
            await made[0].create(run, start)
        writers = [Writer(number, client) for number, client in enumerate(made)]
        enough = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.write_until(enough))
            for _ in range(KILLS):
                await one_more_each(writers)
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                await server.kill()
                await server.start()
            await one_more_each(writers)
            enough.set()
        for run in RUNS:
            told = [receipt for writer in writers if writer.run == run for receipt in writer.receipts]
            check_log(await made[0].read_log(run), told)
        check_attempts([receipt for writer in writers for receipt in writer.receipts])


def check_log(log: list[StoredEvent], receipts: list[Receipt]) -> None:
    """The log is dense, and says of each event what its writer was told."""
    assert [slot_of(stored.event_id) for stored in log] == list(range(1, len(log) + 1))
    rows = Counter(name_of_stored(stored) for stored in log if stored.correlation_id is not None)
    assert set(rows.values()) == {1}
    outcomes = {name_of(receipt.event): receipt.outcome for receipt in receipts}
    assert len(outcomes) == len(receipts)
    # Nobody else writes these events: one that is there is ours, and one that is refused was refused wrongly.
    assert set(outcomes.values()) <= {Outcome.CREATED, Outcome.UNKNOWN, Outcome.UNSENT}
    assert rows.keys() <= outcomes.keys()
    for name, outcome in outcomes.items():
        assert outcome is Outcome.UNKNOWN or (name in rows) == (outcome is Outcome.CREATED), (name, outcome)


def check_attempts(receipts: list[Receipt]) -> None:
    """Answers were lost, what was lost was settled, and nothing was held up for longer than a lease."""
    causes = [[attempt.cause for attempt in receipt.attempts] for receipt in receipts]
    settled = [each for each in causes if FailureClass.AMBIGUOUS in each and each[-1] == "ok"]
    assert settled
    for each in causes:
        # It is asked again after a second or more, and by then the claim of a dead holder has lapsed.
        assert each.count(FailureClass.PENDING) <= KILLS
