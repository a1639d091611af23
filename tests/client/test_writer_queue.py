"""The queue of a writer: bounded, fair, flushed, drained, and told of to the last event."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from eventclient import ConfigurationError, Outcome, ThrottleError, TransportError

from .answers import answered, single_answer
from .samples import RUN, event, steps
from .stage import Honest, Stage, stage
from .write_rows import throttled
from .writing import NEVER, ends, give, held, settle

# -- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [{"max_pending_events": 4}, {"max_pending_bytes": 800}])
async def test_a_full_queue_makes_callers_wait(bound: dict[str, Any]) -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server, max_batch_events=2) as it:
        writer = it.client.writer(**bound)
        calls = give(writer, steps(20))
        await it.server.arrival(1)
        await settle()
        assert 2 <= len(writer._coalescer) + 2 <= 7
        gate.set()
        await asyncio.gather(*calls)
    assert server.log == [(RUN, f"step_{number}") for number in range(20)]
    assert (writer._events, writer._bytes) == (0, 0)


async def test_an_event_larger_than_the_whole_room_still_goes() -> None:
    async with stage(Honest()) as it:
        writer = it.client.writer(max_pending_bytes=1)
        receipts = await asyncio.gather(*give(writer, steps(3)))
        assert {receipt.outcome.value for receipt in receipts} == {"created"}


async def test_who_waits_for_room_is_not_overtaken() -> None:
    server = Honest()
    async with stage(server) as it:
        writer = it.client.writer(max_pending_events=1)

        async def chatter(start: int) -> None:
            for number in range(start, start + 5):
                await writer.create(RUN, event("step_created", f"chatter_{number}"))

        talking = asyncio.ensure_future(chatter(0))
        await it.server.arrival(1)
        patient = give(writer, [event("step_created", "patient")])
        await asyncio.gather(talking, *patient)
    assert [key for _, key in server.log].index("patient") == 1


async def test_a_cancelled_wait_for_room_leaves_the_others_theirs() -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server) as it:
        writer = it.client.writer(max_pending_events=1)
        calls = give(writer, steps(4))
        await it.server.arrival(1)
        await settle()
        calls[1].cancel()
        calls[2].cancel()
        await settle()
        gate.set()
        await ends(calls)
    assert [key for _, key in server.log] == ["step_0", "step_3"]


@pytest.mark.parametrize(
    "options",
    [
        {"linger_s": -1},
        {"linger_s": float("nan")},
        {"linger_s": float("inf")},
        {"max_pending_events": 0},
        {"max_pending_bytes": 0},
    ],
)
async def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    async with stage([]) as it:
        with pytest.raises(ConfigurationError, match="writer"):
            it.client.writer(**options)


# -- flush and close ---------------------------------------------------------------------------


async def test_flush_sends_now_and_waits() -> None:
    async with stage(Honest()) as it:
        writer = it.client.writer(linger_s=30.0)
        calls = give(writer, steps(3))
        await settle()
        await writer.flush()
        assert [call.done() for call in calls] == [True] * 3
        assert it.sizes == [3]
        await writer.flush()
        calls = give(writer, steps(1))
        await settle()
        assert not calls[0].done()
        assert await writer.aclose() == ()
        assert (await calls[0]).outcome == "created"


async def test_flush_leaves_failures_to_those_who_gave_the_events() -> None:
    async with stage([throttled("31")]) as it:
        writer = it.client.writer(linger_s=30.0)
        calls = give(writer, steps(2))
        await settle()
        await writer.flush()
        assert all(isinstance(error, ThrottleError) for error in await ends(calls))


async def test_closing_drains() -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server) as it:
        writer = it.client.writer(linger_s=30.0)
        calls = give(writer, steps(40))
        await it.server.arrival(1)
        closing = asyncio.ensure_future(writer.aclose())
        flushing = asyncio.ensure_future(writer.flush())
        await settle()
        assert not closing.done()
        gate.set()
        assert await closing == ()
        await flushing
        assert len(await asyncio.gather(*calls)) == 40
        with pytest.raises(TransportError, match="closed") as raised:
            await writer.create(RUN, event("step_created"))
        assert raised.value.ambiguous is False
        assert [receipt.outcome for receipt in raised.value.receipts] == [Outcome.UNSENT]
    assert len(server.log) == 40


@pytest.mark.parametrize("by_client", [False, True])
async def test_closing_at_once_tells_everything(by_client: bool) -> None:
    async with stage([NEVER], max_batch_events=2) as it:
        writer = it.client.writer(max_pending_events=4)
        calls = give(writer, steps(6))
        await it.server.arrival(1)
        await settle()
        left = await (it.client if by_client else writer).aclose(within=0)
        assert sorted(receipt.outcome.value for receipt in left) == ["unknown"] * 2 + ["unsent"] * 2
        errors = await ends(calls)
    told = [
        (error.ambiguous, error.receipts[0].outcome.value)
        for error in errors
        if isinstance(error, TransportError)
    ]
    assert told == [(True, "unknown")] * 2 + [(False, "unsent")] * 4
    assert await writer.aclose() == ()


async def test_a_writer_is_a_context() -> None:
    async with stage(Honest()) as it:
        async with it.client.writer(linger_s=30.0) as writer:
            calls = give(writer, steps(2))
            await settle()
        assert [call.done() for call in calls] == [True, True]


async def test_closing_the_client_closes_its_writers() -> None:
    async with stage(Honest()) as it:
        writer = it.client.writer(linger_s=30.0)
        calls = give(writer, steps(2))
        await settle()
        assert await it.client.aclose() == ()
        assert [receipt.outcome.value for receipt in await asyncio.gather(*calls)] == ["created"] * 2
        with pytest.raises(TransportError):
            await writer.create(RUN, event("step_created"))


async def test_nobody_left_to_tell_is_no_error() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with stage([throttled("31"), NEVER]) as it:
        await _abandon(it, 1)
        await _abandon(it, 2)
        await it.client.aclose(within=0)
    gc.collect()
    await settle()
    assert complaints == []


async def _abandon(it: Stage, count: int) -> None:
    calls = give(it.client.writer(), steps(2))
    await it.server.arrival(count)
    for call in calls:
        call.cancel()
    await ends(calls)
    await settle()


async def test_waiting_on_a_single_event_is_answered_by_its_single_post() -> None:
    start = event("step_started")
    async with stage([answered(single_answer(start))]) as it:
        receipt = await it.client.writer().create(RUN, start)
        assert receipt.step is not None


async def test_a_write_that_is_cancelled_before_it_begins_leaves_nobody_waiting() -> None:
    """As when closing runs out of time in the very turn in which the timer of a batch is due."""
    async with stage(Honest()) as it:
        writer = it.client.writer(linger_s=60.0)
        calls = give(writer, steps(3))
        await settle()
        writer._coalescer.flush(asyncio.get_running_loop().time())
        writer._pump()
        for task in writer._tasks:
            task.cancel()
        async with asyncio.timeout(5.0):
            ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in ended] == [TransportError] * 3
        assert [each.receipts[0].outcome for each in ended] == [Outcome.UNSENT] * 3  # type: ignore[union-attr]
        # And what comes later goes as ever.
        later = give(writer, steps(1, 9))
        await settle()
        await writer.flush()
        assert [(await call).outcome for call in later] == [Outcome.CREATED]
