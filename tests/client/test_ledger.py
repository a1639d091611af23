"""Where the time of a write went: the parts of the ledger add up to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from eventclient import EventClient, EventClientError, Ledger, NotFoundError, ThrottleError, parse_event
from eventclient.devserver.app import DevServer
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Reply, SeenRequest

from .answers import answered, batch_answer, log_of, refusal
from .keyed import deadline, supporting
from .samples import RUN, event, pair, steps
from .stage import Honest, stage
from .write_rows import RESET, throttled

PARTS = ("encoding_s", "wire_s", "throttled_s", "backoff_s", "collect_s", "queued_s")
TOLERANCE_S = 0.005


def total(ledger: Ledger) -> float:
    return sum(float(getattr(ledger, part)) for part in PARTS)


async def test_every_moment_belongs_to_one_part() -> None:
    clock = FakeClock()
    events = steps(2)
    script = [
        throttled("3"),
        supporting(Reply(status=503)),
        deadline("60"),
        RESET,
        supporting(answered(batch_answer(events))),
    ]

    def slow(_: SeenRequest) -> Reply:
        clock.advance(0.5)
        return script[len(it.server.requests) - 1]

    async with stage(slow, clock=clock) as it:
        before = clock.now()
        result = await it.client.create_batch(RUN, events)
        took_s = clock.now() - before
    ledger = result.ledger
    assert ledger.wire_s == pytest.approx(2.5)
    assert ledger.throttled_s == pytest.approx(3.0)
    assert ledger.backoff_s == pytest.approx(0.3)
    assert ledger.collect_s == pytest.approx(60.0)
    assert (ledger.queued_s, ledger.encoding_s) == (0.0, 0.0)
    assert total(ledger) == pytest.approx(ledger.wall_s) == pytest.approx(took_s) == pytest.approx(65.8)
    # The attempts of a receipt tell the same.
    attempts = result[0].attempts
    assert sum(each.wait_s + each.elapsed_s for each in attempts) == pytest.approx(took_s)


async def test_reads_that_settle_are_on_the_wire_too() -> None:
    clock = FakeClock()
    events = steps(2)
    script = [RESET, answered(batch_answer(events, [409, 409])), Reply(status=503), log_of(events)]

    def slow(_: SeenRequest) -> Reply:
        clock.advance(0.25)
        return script[len(it.server.requests) - 1]

    async with stage(slow, clock=clock) as it:
        ledger = (await it.client.create_batch(RUN, events)).ledger
    assert (ledger.requests, ledger.reads) == (4, 1)
    assert ledger.wire_s == pytest.approx(1.0)
    assert ledger.backoff_s == pytest.approx(0.1 + 0.5)
    assert total(ledger) == pytest.approx(ledger.wall_s) == pytest.approx(1.6)


async def test_waiting_for_the_turn_of_the_run_is_told() -> None:
    clock = FakeClock()
    gate = asyncio.Event()
    async with stage(Honest(lambda _: Reply(gate=gate)), clock=clock) as it:
        first = asyncio.ensure_future(it.client.create_batch(RUN, steps(2)))
        await it.server.arrival(1)
        second = asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 2)))
        await asyncio.sleep(0)
        clock.advance(7.0)
        gate.set()
        ledgers = [(await call).ledger for call in (first, second)]
    assert [ledger.queued_s for ledger in ledgers] == [0.0, 7.0]
    assert [ledger.wire_s for ledger in ledgers] == [7.0, 0.0]
    assert [total(ledger) for ledger in ledgers] == [ledger.wall_s for ledger in ledgers] == [7.0, 7.0]


async def test_with_requests_side_by_side_it_adds_up_as_well() -> None:
    gate = asyncio.Event()

    def before(request: SeenRequest) -> Reply | None:
        if b"step_0" not in request.body:
            return Reply(gate=gate)
        if len(it.server.requests) > 2:
            gate.set()
            return None
        return throttled("5")

    async with stage(Honest(before), max_batch_events=2) as it:
        result = await it.client.create_batch(RUN, steps(4), concurrency=2)
    # While one waited the other was on the wire, and that counts.
    ledger = result.ledger
    assert it.clock.sleeps == [5.0]
    assert (ledger.wire_s, ledger.throttled_s) == (5.0, 0.0)
    assert total(ledger) == ledger.wall_s == 5.0


async def test_when_all_of_them_wait_it_counts_once() -> None:
    class Together(FakeClock):
        """Two sleeps that end together."""

        both = asyncio.Event()

        async def sleep(self, delay_s: float) -> None:
            self.sleeps.append(delay_s)
            if len(self.sleeps) == 2:
                self.advance(delay_s)
                self.both.set()
            await self.both.wait()

    def before(request: SeenRequest) -> Reply | None:
        return throttled("5") if len(it.server.requests) <= 2 else None

    async with stage(Honest(before), max_batch_events=2, clock=Together()) as it:
        ledger = (await it.client.create_batch(RUN, steps(4), concurrency=2)).ledger
    assert it.clock.sleeps == [5.0, 5.0]
    assert (ledger.throttled_s, ledger.wall_s) == (5.0, 5.0)
    assert total(ledger) == 5.0


async def test_an_error_has_the_account_until_then() -> None:
    async with stage([RESET, throttled("31")]) as it:
        with pytest.raises(ThrottleError) as raised:
            await it.client.create_batch(RUN, steps(2))
    assert raised.value.ledger.requests == 2
    assert raised.value.ledger.backoff_s == pytest.approx(0.1)
    assert total(raised.value.ledger) == pytest.approx(raised.value.ledger.wall_s)


async def test_an_error_of_create_has_it_too() -> None:
    async with stage([throttled("2"), refusal(404)]) as it:
        with pytest.raises(NotFoundError) as raised:
            await it.client.create(RUN, event("step_completed"))
    assert (raised.value.ledger.requests, raised.value.ledger.throttled_s) == (2, 2.0)


# -- on the real clock -------------------------------------------------------------------------

CREATED = parse_event(
    {
        "eventType": "run_created",
        "specVersion": 7,
        "eventData": {"deploymentId": "dpl_1", "workflowName": "w", "input": b"x"},
    }
)


async def _gap(client: EventClient, run_id: str, events: Sequence[object], concurrency: int) -> float:
    """Seconds between what a caller measures around a call and what its ledger adds up to."""
    before = time.monotonic()
    result = await client.create_batch(run_id, events, concurrency=concurrency)  # type: ignore[arg-type]
    took_s = time.monotonic() - before
    assert len(result.created) == len(events)
    assert result.ledger.wire_s > 0
    assert result.ledger.encoding_s > 0
    assert abs(total(result.ledger) - result.ledger.wall_s) < 1e-6
    return abs(took_s - total(result.ledger))


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_over_real_http_the_parts_are_the_time_the_caller_measures(concurrency: int) -> None:
    gaps = []
    async with DevServer() as server, EventClient(server.url) as client:
        await client.create("wrun_ledger", CREATED)
        for number in range(5):
            events = [*steps(120, 1000 * number), *pair(f"pair_{number}")]
            gaps.append(await _gap(client, "wrun_ledger", events, concurrency))
    # The best of several, so that a busy machine does not count as a hole in the account.
    assert min(gaps) < TOLERANCE_S


async def test_a_throttled_write_adds_up_over_real_http() -> None:
    gaps = []
    async with stage([throttled("1"), answered(batch_answer(steps(2)))] * 3) as it:
        for _ in range(3):
            before = it.clock.now()
            result = await it.client.create_batch(RUN, steps(2))
            gaps.append(abs(it.clock.now() - before - total(result.ledger)))
            assert result.ledger.throttled_s == pytest.approx(1.0)
    assert max(gaps) < TOLERANCE_S


def test_errors_without_a_write_have_none() -> None:
    assert EventClientError("x").ledger is None
