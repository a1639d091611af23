"""A cancelled call loses nothing silently: wherever it is, each event has a true outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from eventclient import BatchResult, Receipt, TransportError
from tests.support.scripted_server import Fault, Reply, Script, SeenRequest

from .answers import answered, batch_answer, refusal, single_answer
from .samples import RUN, event, pair, steps
from .stage import HeldClock, Honest, Stage, posted, stage
from .write_rows import throttled

NEVER = Reply(fault=Fault.NEVER)
EVENTS = steps(6)


def batch(start: int, stop: int) -> Reply:
    return answered(batch_answer(EVENTS[start:stop]))


def single(index: int) -> Reply:
    return answered(single_answer(EVENTS[index]))


async def cancelled(call: asyncio.Future[BatchResult]) -> list[str]:
    """The outcomes on the cancellation of `call`."""
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await call
    return outcomes(vars(raised.value)["receipts"])


def outcomes(receipts: Sequence[Receipt]) -> list[str]:
    return [receipt.outcome.value for receipt in receipts]


async def kept(it: Stage, told: list[str]) -> None:
    """What is not settled is what closing gives back."""
    left = await it.client.aclose()
    assert outcomes(left) == [outcome for outcome in told if outcome in ("unknown", "unsent")]
    assert await it.client.aclose() == ()


@pytest.mark.parametrize(
    ("script", "arrivals", "expected"),
    [
        ([NEVER], 1, ["unknown"] * 2 + ["unsent"] * 4),
        (
            [Reply(body=b"x" * 9, fault=Fault.STALL_MID_BODY, fault_after=5)],
            1,
            ["unknown"] * 2 + ["unsent"] * 4,
        ),
        ([batch(0, 2), NEVER], 2, ["created"] * 2 + ["unknown"] * 2 + ["unsent"] * 2),
        ([refusal(404), NEVER], 2, ["unknown"] + ["unsent"] * 5),
        ([refusal(404), single(0), NEVER], 3, ["created", "unknown"] + ["unsent"] * 4),
        ([refusal(404), *map(single, range(3)), NEVER], 5, ["created"] * 3 + ["unknown"] + ["unsent"] * 2),
    ],
    ids=[
        "the answer",
        "its body",
        "of the second chunk",
        "a single",
        "the second single",
        "of another chunk",
    ],
)
async def test_while_awaiting(script: Script, arrivals: int, expected: list[str]) -> None:
    async with stage(script, max_batch_events=2) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(arrivals)
        assert await cancelled(call) == expected
        await kept(it, expected)
        assert len(it.server.requests) == arrivals


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([throttled("9")], ["unsent"] * 6),
        ([Reply(status=503)], ["unknown"] * 2 + ["unsent"] * 4),
        ([batch(0, 2), throttled("9")], ["created"] * 2 + ["unsent"] * 4),
        ([refusal(404), single(0), throttled("9")], ["created"] + ["unsent"] * 5),
        ([refusal(404), single(0), Reply(status=503)], ["created", "unknown"] + ["unsent"] * 4),
    ],
    ids=["for a throttle", "to send again", "in the second chunk", "for a single", "to send a single again"],
)
async def test_while_waiting(script: Script, expected: list[str]) -> None:
    clock = HeldClock()
    async with stage(script, clock=clock, max_batch_events=2) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await clock.asleep.wait()
        count = len(it.server.requests)
        assert await cancelled(call) == expected
        await kept(it, expected)
        assert len(it.server.requests) == count


async def test_while_waiting_for_the_turn() -> None:
    async with stage([NEVER]) as it:
        first = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        second = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await asyncio.sleep(0)
        assert await cancelled(second) == ["unsent"] * 6
        assert await cancelled(first) == ["unknown"] * 6
        await kept(it, ["unsent"] * 6 + ["unknown"] * 6)


async def test_before_there_is_a_connection() -> None:
    async with stage([NEVER], max_connections=1) as it:
        first = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        second = asyncio.ensure_future(it.client.create_batch("other", EVENTS))
        for _ in range(5):
            await asyncio.sleep(0)
        # Whether anything had left is not known from here, so either answer is true.
        assert set(await cancelled(second)) <= {"unsent", "unknown"}
        assert await cancelled(first) == ["unknown"] * 6
        assert len(it.server.requests) == 1


async def test_with_several_requests_under_way() -> None:
    gate = asyncio.Event()
    answers = {"step_0": batch(0, 2), "step_2": replace(throttled("9"), gate=gate), "step_4": NEVER}
    clock = HeldClock()
    async with stage(
        lambda request: answers[str(posted(request)[0].correlation_id)], clock=clock, max_batch_events=2
    ) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS, concurrency=4))
        await it.server.arrival(3)
        for _ in range(50):
            await asyncio.sleep(0)
        gate.set()
        await clock.asleep.wait()
        expected = ["created"] * 2 + ["unsent"] * 2 + ["unknown"] * 2
        assert await cancelled(call) == expected
        await kept(it, expected)


async def test_create_tells_too() -> None:
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.create(RUN, event("step_started")))
        await it.server.arrival(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await call
        assert outcomes(vars(raised.value)["receipts"]) == ["unknown"]
        await kept(it, ["unknown"])


async def test_a_cancelled_call_is_not_sent_again() -> None:
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        await cancelled(call)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(it.server.requests), it.clock.sleeps) == (1, [])


async def test_a_cancelled_call_leaves_its_connection_free() -> None:
    def script(request: SeenRequest) -> Reply:
        return NEVER if len(it.server.requests) <= 50 else honest(request)

    honest = Honest()
    async with stage(script, max_connections=2) as it:
        for count in range(50):
            call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
            await it.server.arrival(count + 1)
            await cancelled(call)
        assert len((await it.client.create_batch(RUN, EVENTS)).created) == 6


# -- at any step -------------------------------------------------------------------------------

MIXED = [*steps(2), *pair("p"), event("hook_created", "h"), *steps(2, 2)]


Mood = Callable[[SeenRequest, int], Reply | None]


def plain(request: SeenRequest, count: int) -> Reply | None:
    return None


def busy(request: SeenRequest, count: int) -> Reply | None:
    return (throttled("1"), None, Reply(status=503), None)[count % 4]


def no_batches(request: SeenRequest, count: int) -> Reply | None:
    return refusal(404) if request.path.endswith("batch") else None


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("mood", [plain, busy, no_batches])
async def test_at_any_step_outcomes_are_true(mood: Mood, concurrency: int) -> None:
    for turns in range(0, 90, 3):
        await _cancel_after(turns, mood, concurrency)


async def _cancel_after(turns: int, mood: Mood, concurrency: int) -> None:
    server = Honest()
    server.before = lambda request: mood(request, len(server.log))
    receipts: Sequence[Receipt]
    async with stage(server, max_batch_events=2) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, MIXED, concurrency=concurrency))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        call.cancel()
        try:
            receipts = tuple(await call)
        except (asyncio.CancelledError, TransportError) as error:
            receipts = vars(error)["receipts"]
    assert [receipt.event for receipt in receipts] == MIXED
    for receipt in receipts:
        stored = (receipt.event.event_type, receipt.event.correlation_id) in server.taken
        if receipt.outcome == "created":
            assert stored
        elif receipt.outcome == "unsent":
            assert not stored
        else:
            assert receipt.outcome in ("unknown", "already_applied")
