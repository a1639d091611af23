"""A writer leaves nobody waiting, and nobody pays for another's event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from eventclient import (
    ClientOptions,
    Event,
    EventClient,
    EventWriter,
    InvalidEventError,
    Outcome,
    parse_event,
)
from eventclient.devserver.app import DevServer
from eventclient.model.outcomes import BatchResult
from eventclient.wire.requests import EncodedEvent

RUN = "wrun_writer"


def event(kind: str, correlation_id: str | None = None, **data: object) -> Event:
    named = {} if correlation_id is None else {"correlation_id": correlation_id}
    return parse_event({"event_type": kind, "spec_version": 7, "event_data": data, **named})


CREATED = event("run_created", deployment_id="dpl_1", workflow_name="order")


def step(name: str, **data: object) -> Event:
    return event("step_created", name, step_name="s", **data)


async def test_room_that_a_cancelled_event_leaves_is_used() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        await client.create(RUN, CREATED)
        writer = client.writer(max_pending_events=1, linger_s=1000.0)
        first = asyncio.create_task(writer.create(RUN, step("a")))
        await asyncio.sleep(0)
        second = asyncio.create_task(writer.create(RUN, step("b")))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await first
        assert [receipt.outcome for receipt in caught.value.receipts] == [  # type: ignore[attr-defined]
            Outcome.UNSENT
        ]
        while not second.done():
            await writer.flush()
            await asyncio.sleep(0)
        assert (await second).outcome is Outcome.CREATED


async def test_an_unforeseen_error_leaves_nobody_waiting() -> None:
    async def broken(run_id: str, events: Sequence[Event], encoded: Sequence[EncodedEvent]) -> BatchResult:
        raise RuntimeError("broken")

    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    writer = EventWriter(broken, ClientOptions())
    for name in ("a", "b"):
        with pytest.raises(Exception, match="ended unexpectedly") as caught:
            await writer.create(RUN, step(name))
        assert caught.value.receipts[0].outcome is Outcome.UNKNOWN  # type: ignore[attr-defined]


async def test_pairs_are_kept_together() -> None:
    options = ClientOptions(max_batch_events=4)
    async with DevServer() as server, EventClient(server.url, options=options) as client:
        await client.create(RUN, CREATED)
        writer = client.writer()
        start = event("step_started", "p", step_name="s")
        events = [step("x"), step("y"), step("z"), step("p"), start]
        receipts = await asyncio.gather(*(writer.create(RUN, item) for item in events))
        assert [receipt.via for receipt in receipts] == ["batch"] * 5


async def test_a_pair_too_large_together_is_nobody_elses_fault() -> None:
    options = ClientOptions(max_batch_bytes=2000)
    async with DevServer() as server, EventClient(server.url, options=options) as client:
        await client.create(RUN, CREATED)
        writer = client.writer()
        events = [
            step("a"),
            step("p", input=b"x" * 1700),
            event("step_started", "p", step_name="s" * 100),
            step("b"),
        ]
        ends = await asyncio.gather(*(writer.create(RUN, item) for item in events), return_exceptions=True)
        assert [isinstance(end, InvalidEventError) for end in ends] == [False, True, True, False]
        assert [stored.correlation_id for stored in await client.read_log(RUN)] == [None, "a", "b"]


async def test_what_happens_to_an_event_after_it_was_given_changes_nothing() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        context = {"k": "before"}
        created = event("run_created", deployment_id="d", workflow_name="w", execution_context=context)
        task = asyncio.create_task(client.writer().create(RUN, created))
        await asyncio.sleep(0)
        context["k"] = "after"
        created.event_data.execution_context["k"] = "after"  # type: ignore[union-attr, index]
        await task
        (stored,) = await client.read_log(RUN)
        assert (stored.event_data or {})["executionContext"] == {"k": "before"}


async def test_a_token_that_is_held_is_told_as_by_the_client() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        for run_id in (RUN, "wrun_other"):
            await client.create(run_id, CREATED)
        await client.create("wrun_other", event("hook_created", "hook_1", token="t"))
        receipt = await client.writer().create(RUN, event("hook_created", "hook_2", token="t"))
        assert (receipt.outcome, receipt.status) == (Outcome.CONFLICT, 200)


async def test_closing_ends_what_several_writers_hold() -> None:
    async def stuck(run_id: str, events: Sequence[Event], encoded: Sequence[EncodedEvent]) -> BatchResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with DevServer() as server, EventClient(server.url) as client:
        await client.create(RUN, CREATED)
        writers = [client.writer() for _ in range(3)]
        for writer in writers:
            writer._write = stuck
        tasks = [asyncio.create_task(writer.create(RUN, step("a"))) for writer in writers]
        await asyncio.sleep(0)
        left = await client.aclose(within=0.05)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(left) == 3
        assert all(isinstance(end, Exception) for end in ends)


async def test_a_small_event_does_not_overtake_a_large_one_that_waits_for_room() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        await client.create(RUN, CREATED)
        writer = client.writer(max_pending_bytes=3000)
        events = [
            step("x0", input=b"x" * 2000),
            step("x1", input=b"x" * 2500),
            event("step_started", "x1", step_name="s"),
            step("x2"),
        ]
        receipts = await asyncio.gather(*(writer.create(RUN, item) for item in events))
        assert [receipt.outcome for receipt in receipts] == [Outcome.CREATED] * 4
        log = [(stored.event_type, stored.correlation_id) for stored in await client.read_log(RUN)]
        assert log[1:] == [
            ("step_created", "x0"),
            ("step_created", "x1"),
            ("step_started", "x1"),
            ("step_created", "x2"),
        ]


async def test_a_call_cancelled_while_it_waits_for_room_says_so() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        await client.create(RUN, CREATED)
        writer = client.writer(max_pending_events=1, linger_s=1000.0)
        first = asyncio.create_task(writer.create(RUN, step("a")))
        second = asyncio.create_task(writer.create(RUN, step("b")))
        for _ in range(3):
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await second
        (receipt,) = caught.value.receipts  # type: ignore[attr-defined]
        assert receipt.outcome is Outcome.UNSENT
        await writer.flush()
        assert (await first).outcome is Outcome.CREATED
