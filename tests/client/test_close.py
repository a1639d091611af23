"""Closing: intake stops, what is under way ends or is ended, and nothing is lost silently."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from eventclient import BatchResult, ClientOptions, EventClient, Receipt, TransportError
from eventclient.client import calls
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Fault, Reply, ScriptedServer

from .answers import answered, batch_answer
from .samples import RUN, event, steps
from .stage import HeldClock, Honest, stage
from .write_rows import throttled

NEVER = Reply(fault=Fault.NEVER)
EVENTS = steps(2)


def outcomes(receipts: tuple[Receipt, ...]) -> list[str]:
    return [receipt.outcome.value for receipt in receipts]


async def test_closing_an_idle_client_gives_nothing_back() -> None:
    async with stage(Honest()) as it:
        await it.client.create_batch(RUN, EVENTS)
        assert await it.client.aclose() == ()
        assert await it.client.aclose() == ()


CALLS: list[Callable[[EventClient], Awaitable[object]]] = [
    lambda client: client.create(RUN, EVENTS[0]),
    lambda client: client.create_batch(RUN, EVENTS),
    lambda client: client.read_log(RUN),
    lambda client: client.get_event(RUN, "evnt_1"),
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_client_takes_no_calls(call: Callable[[EventClient], Awaitable[object]]) -> None:
    async with stage(Honest()) as it:
        await it.client.aclose()
        with pytest.raises(TransportError, match="closed") as raised:
            await call(it.client)
        assert raised.value.ambiguous is False
        assert set(outcomes(raised.value.receipts)) <= {"unsent"}
        assert it.server.connections == 0


async def test_closing_waits_for_what_is_under_way() -> None:
    gate = asyncio.Event()
    reply = answered(batch_answer(EVENTS))
    held = Reply(headers=reply.headers, body=reply.body, gate=gate)
    async with stage([held, reply]) as it:
        calls = [asyncio.ensure_future(it.client.create_batch(RUN, EVENTS)) for _ in range(2)]
        await it.server.arrival(1)
        closing = asyncio.ensure_future(it.client.aclose())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing.done()
        gate.set()
        assert await closing == ()
        assert [len((await call).created) for call in calls] == [2, 2]


@pytest.mark.parametrize("within", [0, 0.01])
async def test_closing_within_a_time_ends_what_is_under_way(within: float) -> None:
    async with stage([NEVER]) as it:
        under_way = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        waiting = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        left = await it.client.aclose(within=within)
        assert sorted(outcomes(left)) == ["unknown"] * 2 + ["unsent"] * 2
        for call, outcome in ((under_way, "unknown"), (waiting, "unsent")):
            with pytest.raises(TransportError, match="closed") as raised:
                await call
            assert raised.value.ambiguous is (outcome == "unknown")
            assert raised.value.run_id == RUN
            assert outcomes(raised.value.receipts) == [outcome] * 2


async def test_closing_ends_a_throttle_wait_as_unsent() -> None:
    clock = HeldClock()
    async with stage([throttled("20")], clock=clock) as it:
        call = asyncio.ensure_future(it.client.create(RUN, EVENTS[0]))
        await clock.asleep.wait()
        assert outcomes(await it.client.aclose(within=0)) == ["unsent"]
        with pytest.raises(TransportError) as raised:
            await call
        assert raised.value.ambiguous is False


async def test_closing_ends_reads_too() -> None:
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.read_log(RUN))
        await it.server.arrival(1)
        assert await it.client.aclose(within=0) == ()
        with pytest.raises(TransportError, match="closed"):
            await call


async def test_two_may_close_at_once() -> None:
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        first, second = await asyncio.gather(it.client.aclose(within=0), it.client.aclose(within=0))
        assert sorted(outcomes(first + second)) == ["unknown"] * 2
        with pytest.raises(TransportError, match="closed"):
            await call
        assert not call.cancelled()


async def test_a_caller_s_own_cancellation_stays_one_while_closing() -> None:
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, EVENTS))
        await it.server.arrival(1)
        call.cancel()
        closing = asyncio.ensure_future(it.client.aclose(within=0))
        with pytest.raises(asyncio.CancelledError):
            await call
        assert outcomes(await closing) == ["unknown"] * 2


async def test_a_task_goes_on_unharmed_behind_the_call_that_was_ended() -> None:
    async def work(client: EventClient) -> str:
        with pytest.raises(TransportError):
            await client.create_batch(RUN, EVENTS)
        await asyncio.sleep(0)
        current = asyncio.current_task()
        assert current is not None
        return f"cancelling {current.cancelling()}"

    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(work(it.client))
        await it.server.arrival(1)
        await it.client.aclose(within=0)
        assert await call == "cancelling 0"


async def test_what_closing_gives_back_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calls, "MAX_UNCONFIRMED", 3)
    async with stage([NEVER]) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, steps(5)))
        await it.server.arrival(1)
        assert len(await it.client.aclose(within=0)) == 3
        with pytest.raises(TransportError) as raised:
            await call
        assert len(raised.value.receipts) == 5
    assert "2 receipts" in caplog.text


# -- the context manager -----------------------------------------------------------------------


async def test_leaving_the_context_waits_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer(Honest()) as server:
        async with EventClient(server.origin) as client:
            call = asyncio.ensure_future(client.create_batch(RUN, EVENTS))
            await asyncio.sleep(0)
        assert len((await call).created) == 2
    assert caplog.records == []


async def test_leaving_the_context_by_an_error_ends_calls_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(server: ScriptedServer) -> None:
        async with EventClient(server.origin) as client:
            under_way.append(asyncio.ensure_future(client.create_batch(RUN, EVENTS)))
            await server.arrival(1)
            raise KeyError

    under_way: list[asyncio.Future[BatchResult]] = []
    async with ScriptedServer([NEVER]) as server:
        with pytest.raises(KeyError):
            await fail(server)
        with pytest.raises(TransportError):
            await under_way[0]
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "2 events unconfirmed" in record.getMessage()


# -- sessions ----------------------------------------------------------------------------------


async def test_an_injected_session_is_never_closed() -> None:
    async with ScriptedServer(Honest()) as server, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with EventClient(server.origin, session=session) as client:
                await client.create_batch(RUN, EVENTS)
            assert not session.closed


async def test_a_closed_session_sends_nothing() -> None:
    clock = FakeClock()
    async with ScriptedServer(Honest()) as server:
        session = aiohttp.ClientSession()
        client = EventClient(server.origin, session=session, options=ClientOptions(clock=clock))
        await session.close()
        for write in (client.create(RUN, event("step_started")), client.create_batch(RUN, EVENTS)):
            with pytest.raises(TransportError, match="session is closed") as raised:
                await write
            assert raised.value.ambiguous is False
            assert set(outcomes(raised.value.receipts)) == {"unsent"}
        await client.aclose()
        assert server.connections == 0


async def test_nothing_is_left_open() -> None:
    # Warnings are errors here, so an unclosed session would fail the test when it is collected.
    async with stage(Honest()) as it:
        await it.client.create_batch(RUN, EVENTS)
    gc.collect()
