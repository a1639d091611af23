"""Waiting for 429: logged, budgeted per post or per call, never across a timeout or another run."""

from __future__ import annotations

import asyncio
import logging

import pytest

from eventclient import Outcome, RetryOptions, ThrottleError
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Reply, SeenRequest

from .answers import answered, batch_answer, single_answer
from .samples import OTHER_RUN, RUN, event, steps
from .stage import HeldClock, Honest, stage
from .write_rows import throttled

EVENTS = steps(4)
HALVES = [answered(batch_answer(EVENTS[:2])), answered(batch_answer(EVENTS[2:]))]
TWICE = [throttled("20"), HALVES[0], throttled("20"), HALVES[1]]


async def test_each_post_has_the_whole_budget() -> None:
    async with stage(TWICE, max_batch_events=2) as it:
        result = await it.client.create_batch(RUN, EVENTS)
        assert it.clock.sleeps == [20.0, 20.0]
        assert result.ledger.throttled_s == 40.0


async def test_a_call_may_have_one_budget() -> None:
    async with stage(TWICE, max_batch_events=2, retry=RetryOptions(throttle_scope="call")) as it:
        with pytest.raises(ThrottleError) as raised:
            await it.client.create_batch(RUN, EVENTS)
        assert it.clock.sleeps == [20.0]
    error = raised.value
    assert (error.retry_after, error.waited, error.budget) == (20.0, 20.0, 30.0)
    assert [receipt.outcome.value for receipt in error.receipts] == ["created", "created", "unsent", "unsent"]


async def test_the_next_call_has_its_own() -> None:
    async with stage(TWICE, retry=RetryOptions(throttle_scope="call")) as it:
        await it.client.create_batch(RUN, EVENTS[:2])
        await it.client.create_batch(RUN, EVENTS[2:])
        assert it.clock.sleeps == [20.0, 20.0]


@pytest.mark.parametrize(
    ("budget_s", "asked", "waits"), [(0.0, "1", []), (5.0, "2", [2.0, 2.0]), (60.0, "31", [31.0])]
)
async def test_the_budget_is_an_option(budget_s: float, asked: str, waits: list[float]) -> None:
    async with stage(
        [throttled(asked)], repeat_last=True, retry=RetryOptions(throttle_budget_s=budget_s)
    ) as it:
        with pytest.raises(ThrottleError) as raised:
            await it.client.create_batch(RUN, EVENTS)
        assert it.clock.sleeps == waits
        assert raised.value.budget == budget_s


@pytest.mark.parametrize(
    ("asked", "waits"),
    [("1", [1.1] * 27), ("7", [7.25] * 4), ("30", [30.0]), ("29.5", [30.0]), ("31", [])],
)
async def test_jitter_is_on_top_and_paid_from_the_budget(asked: str, waits: list[float]) -> None:
    clock = FakeClock(jitter=1.0)
    async with stage([throttled(asked)], repeat_last=True, clock=clock) as it:
        with pytest.raises(ThrottleError):
            await it.client.create(RUN, event("step_started"))
        assert clock.sleeps == pytest.approx(waits)
        assert sum(clock.sleeps) <= 30.0 + 1e-9


async def test_each_wait_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with stage([throttled("2"), throttled("3"), HALVES[0]]) as it:
        await it.client.create_batch(RUN, EVENTS[:2])
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 2
    assert "2.00 s" in told[0]
    assert RUN in told[0]


async def test_backoff_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "eventclient")
    async with stage([Reply(status=503), HALVES[0]]) as it:
        await it.client.create_batch(RUN, EVENTS[:2])
    assert [record.levelname for record in caplog.records if record.name == "eventclient"] == ["INFO"]


async def test_a_timeout_around_the_call_ends_the_wait() -> None:
    clock = HeldClock()
    async with stage([throttled("5")], clock=clock) as it:
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.05):
                await it.client.create_batch(RUN, EVENTS)
        assert len(it.paths) == 1
        cancelled = raised.value.__cause__
        assert isinstance(cancelled, asyncio.CancelledError)
        receipts = vars(cancelled)["receipts"]
        assert [receipt.outcome for receipt in receipts] == [Outcome.UNSENT] * 4
        assert await it.client.aclose() == receipts


async def test_a_throttled_run_holds_up_no_other() -> None:
    clock = HeldClock()

    def before(request: SeenRequest) -> Reply | None:
        return throttled("5") if OTHER_RUN in request.path else None

    async with stage(Honest(before), clock=clock, max_connections=1) as it:
        slow = asyncio.ensure_future(it.client.create_batch(OTHER_RUN, EVENTS))
        await clock.asleep.wait()
        # One connection is all there is, and the one that waits does not hold it.
        result = await it.client.create_batch(RUN, EVENTS)
        assert len(result.created) == 4
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


async def test_ten_runs_do_not_come_back_at_one_instant() -> None:
    class Spread(FakeClock):
        def __init__(self) -> None:
            super().__init__()
            self.share = 0.0

        def jitter(self, upper_s: float) -> float:
            self.share += 0.1
            return self.share * upper_s

    def script(request: SeenRequest) -> Reply:
        run_id = request.path.split("/")[-3]
        first = sum(seen.path == request.path for seen in it.server.requests) == 1
        return throttled("2") if first else answered(single_answer(event("step_created"), run_id=run_id))

    async with stage(script, clock=Spread()) as it:
        await asyncio.gather(*(it.client.create(f"r{number}", event("step_created")) for number in range(10)))
        assert len(set(it.clock.sleeps)) == 10
        assert all(2.0 <= wait_s <= 2.25 for wait_s in it.clock.sleeps)
