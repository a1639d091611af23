"""Order: calls for one run take turns, requests that are independent may fly together."""

from __future__ import annotations

import asyncio

import pytest

from eventclient import BatchResult, ConfigurationError, ThrottleError, TransportError
from eventclient.client.turns import Turns
from eventclient.model.events import Event
from tests.support.scripted_server import Reply, SeenRequest

from .answers import answered, batch_answer, refusal
from .samples import OTHER_RUN, RUN, event, pair, steps
from .stage import Honest, Stage, posted, stage
from .write_rows import RESET, throttled


def keys(events: list[Event]) -> list[str | None]:
    return [each.correlation_id for each in events]


class Gates:
    """Holds each request back until its gate is opened; the gate is named by the first event's key."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.broken: dict[str, Reply] = {}

    def gate(self, key: str) -> asyncio.Event:
        return self.gates.setdefault(key, asyncio.Event())

    def open(self, *names: str) -> None:
        for key in names:
            self.gate(key).set()

    def __call__(self, request: SeenRequest) -> Reply | None:
        key = str(posted(request)[0].correlation_id)
        return self.broken.get(key) or Reply(gate=self.gate(key))


# -- one after another -------------------------------------------------------------------------


async def test_calls_for_one_run_take_turns_in_the_order_they_came() -> None:
    gates = Gates()
    server = Honest(gates)
    async with stage(server) as it:
        calls = [
            asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 2 * number))) for number in range(5)
        ]
        for number in range(5):
            await it.server.arrival(number + 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(it.server.requests) == number + 1
            gates.open(f"step_{2 * number}")
        await asyncio.gather(*calls)
        assert server.log == [(RUN, f"step_{number}") for number in range(10)]


async def test_a_retry_stays_at_the_front() -> None:
    count = 0

    def before(request: SeenRequest) -> Reply | None:
        nonlocal count
        count += 1
        return (throttled("1"), RESET)[count - 1] if count <= 2 else None

    server = Honest(before)
    async with stage(server) as it:
        first = asyncio.ensure_future(it.client.create_batch(RUN, steps(2)))
        second = asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 2)))
        await asyncio.gather(first, second)
        assert it.server.requests[0].body == it.server.requests[2].body
    assert server.log == [(RUN, f"step_{number}") for number in range(4)]


async def test_runs_do_not_wait_for_each_other() -> None:
    gates = Gates()
    gates.open("b_0")
    async with stage(Honest(gates)) as it:
        held = asyncio.ensure_future(it.client.create_batch(OTHER_RUN, steps(2)))
        await it.server.arrival(1)
        await it.client.create_batch(RUN, [event("step_created", "b_0"), event("step_created", "b_1")])
        assert not held.done()
        gates.open("step_0")
        await held


async def test_a_call_that_fails_or_is_cancelled_gives_its_turn_away() -> None:
    gates = Gates()
    gates.broken["step_0"] = throttled("31")
    async with stage(Honest(gates)) as it:
        failing = asyncio.ensure_future(it.client.create_batch(RUN, steps(2)))
        held = asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 2)))
        waiting = asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 4)))
        last = asyncio.ensure_future(it.client.create_batch(RUN, steps(2, 6)))
        with pytest.raises(ThrottleError):
            await failing
        await it.server.arrival(2)
        waiting.cancel()
        held.cancel()
        gates.open("step_6")
        assert len((await last).created) == 2
        await asyncio.gather(held, waiting, return_exceptions=True)


async def test_chunks_of_a_call_are_sent_one_after_another() -> None:
    gates = Gates()
    async with stage(Honest(gates), max_batch_events=2) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, steps(6)))
        for number in range(3):
            await it.server.arrival(number + 1)
            assert len(it.server.requests) == number + 1
            gates.open(f"step_{2 * number}")
        await call


# -- together ----------------------------------------------------------------------------------


async def flying(it: Stage, events: list[Event], count: int) -> asyncio.Future[BatchResult]:
    call = asyncio.ensure_future(it.client.create_batch(RUN, events, concurrency=4))
    await it.server.arrival(count)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(it.server.requests) == count
    return call


async def test_independent_chunks_fly_together() -> None:
    gates = Gates()
    async with stage(Honest(gates), max_batch_events=2) as it:
        call = await flying(it, steps(12), 4)
        gates.open(*(f"step_{number}" for number in range(0, 12, 2)))
        result = await call
        assert [receipt.outcome.value for receipt in result] == ["created"] * 12
        assert [receipt.event for receipt in result] == steps(12)


async def test_what_others_depend_on_flies_alone() -> None:
    gates = Gates()
    events = [*steps(4), event("hook_created", "h"), *steps(4, 4), event("run_completed")]
    async with stage(Honest(gates), max_batch_events=2) as it:
        call = await flying(it, events, 2)
        gates.open("step_0", "step_2")
        await it.server.arrival(3)
        assert it.paths[2] == "hook_created"
        gates.open("h")
        await it.server.arrival(5)
        gates.open("step_4", "step_6", "None")
        await call
        assert it.paths[-1] == "run_completed"


async def test_siblings_are_settled_before_an_error_is_raised() -> None:
    gates = Gates()
    gates.broken["step_2"] = throttled("31")
    async with stage(Honest(gates), max_batch_events=2) as it:
        call = await flying(it, steps(10), 4)
        assert not call.done()
        gates.open("step_0", "step_4", "step_6")
        with pytest.raises(ThrottleError) as raised:
            await call
        assert len(it.server.requests) == 4
    told = [receipt.outcome.value for receipt in raised.value.receipts]
    assert told == ["created"] * 2 + ["unsent"] * 2 + ["created"] * 4 + ["unsent"] * 2


async def test_each_sibling_retries_by_itself() -> None:
    count = 0

    def before(request: SeenRequest) -> Reply | None:
        nonlocal count
        count += 1
        return RESET if count <= 2 else None

    async with stage(Honest(before), max_batch_events=2) as it:
        result = await it.client.create_batch(RUN, steps(8), concurrency=4)
        assert len(result.created) == 8
        assert result.ledger.requests == len(it.server.requests) == 6


async def test_two_errors_at_once_raise_the_first() -> None:
    gates = Gates()
    gates.broken |= {"p": Reply(status=503), "q": throttled("31")}
    async with stage(Honest(gates), max_batch_events=2) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, [*pair("p"), *pair("q")], concurrency=2)
    assert [receipt.outcome.value for receipt in raised.value.receipts] == ["unknown"] * 2 + ["unsent"] * 2


@pytest.mark.parametrize("concurrency", [0, -1])
async def test_at_least_one_request_must_be_allowed(concurrency: int) -> None:
    async with stage([]) as it:
        with pytest.raises(ConfigurationError, match="concurrency"):
            await it.client.create_batch(RUN, steps(2), concurrency=concurrency)


# -- turns -------------------------------------------------------------------------------------


async def test_turns_come_in_order_and_are_forgotten() -> None:
    turns, seen = Turns(), list[int]()

    async def take(number: int) -> None:
        await turns.enter("r")
        seen.append(number)
        await asyncio.sleep(0)
        turns.leave("r")

    tasks = [asyncio.ensure_future(take(number)) for number in range(6)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert seen == [0, 1, 3, 4, 5]
    assert turns._queues == {}


# -- behind what may yet land ------------------------------------------------------------------


async def test_nothing_is_sent_behind_a_single_post_that_may_yet_land() -> None:
    """Its first attempt may come late, and would stand behind what was sent meanwhile."""
    async with stage([RESET, refusal(404)], batch=False) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, steps(4))
        assert it.paths == ["step_created"] * 2
    assert (raised.value.ambiguous, raised.value.event_index) == (True, 0)
    assert [receipt.outcome.value for receipt in raised.value.receipts] == ["unknown"] + ["unsent"] * 3


async def test_nor_behind_a_batch_that_holds_such_an_event() -> None:
    events = steps(40)
    async with stage([RESET, answered(batch_answer(events[:32], [200, 404]))]) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, events)
        assert it.paths == ["batch"] * 2
    outcomes = [receipt.outcome.value for receipt in raised.value.receipts]
    assert outcomes == ["created", "unknown", *["created"] * 30, *["unsent"] * 8]


async def test_where_nothing_follows_it_is_told_in_its_receipt() -> None:
    async with stage([RESET, answered(batch_answer(steps(2), [200, 404]))]) as it:
        result = await it.client.create_batch(RUN, steps(2))
    assert [receipt.outcome.value for receipt in result] == ["created", "unknown"]
