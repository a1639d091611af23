"""A client, a relay that cuts, and the reference server with its store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from eventclient import (
    ClientOptions,
    Event,
    EventClient,
    EventClientError,
    Ledger,
    Outcome,
    Receipt,
    RetryOptions,
)
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.devserver.limits import Limits
from eventclient.devserver.state import LogQuery
from eventclient.devserver.store import StepQuery
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.cuts.batches import Batch, Row, before_first, guarded_by_key, rows_of, run_started
from tests.support.cutting_relay import Cut, CuttingRelay, Exchange
from tests.support.fake_clock import FakeClock

SUPPORT = "Idempotency-Support"


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one call.

    Attributes:
        error: what it raised.
        rows: what the log holds more than before.
        exchanges: what went over the wire.
    """

    receipts: Sequence[Receipt]
    error: EventClientError | None
    rows: list[Row]
    exchanges: Sequence[Exchange]

    @property
    def outcomes(self) -> list[Outcome]:
        return [receipt.outcome for receipt in self.receipts]


@dataclass(slots=True)
class Stage:
    """What the tests of this folder work with; one call at a time."""

    store: SqliteStore
    relay: CuttingRelay
    client: EventClient
    clock: FakeClock
    options: ClientOptions

    async def write(self, run: str, events: Sequence[Event], *cuts: Cut | None) -> Ended:
        """Write `events` by one call whose exchanges are cut like that.

        The ledger must add up, and its figures must be those of the wire and the clock.
        """
        before = await self.last_slot(run)
        self.relay.exchanges.clear()
        self.relay.cut_next(*cuts)
        self.clock.sleeps.clear()
        error: EventClientError | None = None
        try:
            result = await self.client.create_batch(run, events)
            receipts: Sequence[Receipt] = tuple(result)
            ledger: Ledger | None = result.ledger
        except EventClientError as raised:
            error, receipts, ledger = raised, raised.receipts, raised.ledger
        self.relay.cut_next()
        assert ledger is not None
        exchanges = tuple(self.relay.exchanges)
        check_ledger(ledger, exchanges, self.clock.sleeps)
        log = await self.store.read_log(LogQuery(run_id=run, after=before))
        return Ended(receipts, error, rows_of(log or []), exchanges)

    @asynccontextmanager
    async def newcomer(self) -> AsyncIterator[Stage]:
        """The same stage with a client that has not talked to the server yet."""
        async with EventClient(self.relay.origin, options=self.options) as client:
            yield replace(self, client=client)

    async def last_slot(self, run: str) -> int:
        """The slot of the newest row of the log."""
        newest = await self.store.read_log(LogQuery(run_id=run, limit=1, descending=True))
        return newest[0].slot if newest else 0


def check_ledger(ledger: Ledger, exchanges: Sequence[Exchange], sleeps: Sequence[float]) -> None:
    """Every moment is accounted for, and so is every request."""
    parts = (ledger.encoding_s, ledger.wire_s, ledger.throttled_s, ledger.backoff_s, ledger.collect_s)
    assert sum(parts) + ledger.queued_s == pytest.approx(ledger.wall_s, abs=1e-6)
    assert ledger.backoff_s == pytest.approx(sum(sleeps), abs=1e-6)
    assert ledger.requests == len(exchanges)
    assert ledger.bytes == sum(exchange.body_bytes for exchange in exchanges)


def check_told(ended: Ended, batch: Batch, ours: Outcome = Outcome.CREATED) -> None:
    """The batch is in the log exactly once and in order, and each receipt says so.

    Args:
        ours: what is told of the events that are in the log through this call.
    """
    assert ended.error is None
    assert ended.rows == batch.rows
    told = [Outcome.CONFLICT if batch.is_taken(index) else ours for index in range(len(batch.events))]
    assert ended.outcomes == told
    for index in batch.starts:
        step = ended.receipts[index].step
        assert step is not None
        assert step.attempt == 1


async def begin(on: Stage, run: str) -> Exchange:
    """Make a run ready for its second round; the exchange of its first one, which nothing cut."""
    await on.client.create(run, run_started())
    ready = await on.write(run, before_first())
    assert ready.error is None
    batch = guarded_by_key(1)
    whole = await on.write(run, batch.events)
    check_told(whole, batch)
    return whole.exchanges[0]


async def check_attempts(store: SqliteStore, run: str, started: int) -> None:
    """`started` steps of the run have been started, each once."""
    steps = await store.read_steps(StepQuery(run_id=run, limit=1_000_000))
    attempts = [listed.entity.attempt for listed in steps]
    assert set(attempts) <= {0, 1}
    assert sum(attempts) == started


@asynccontextmanager
async def stage(*, keys: bool = True, limits: Limits | None = None, **retry: float) -> AsyncIterator[Stage]:
    """A stage whose server honours keys, or does not and does not say it does.

    Args:
        limits: the server's.
        retry: `RetryOptions`.
    """
    store, clock = SqliteStore(), FakeClock()
    hidden = Hidden(protection=Protection.FENCED if keys else Protection.NONE)
    options = ClientOptions(clock=clock, retry=RetryOptions(backoff_s=0.0001, **retry))  # type: ignore[arg-type]
    async with (
        DevServer(store, hidden=hidden, limits=limits) as server,
        CuttingRelay(server.url, strip=() if keys else (SUPPORT,)) as relay,
        EventClient(relay.origin, options=options) as client,
    ):
        yield Stage(store, relay, client, clock, options)
