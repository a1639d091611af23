"""`EventWriter`: concurrent single writes go together, in order, and each caller learns of its own event."""

from __future__ import annotations

import asyncio

import pytest

from eventclient import (
    ConflictError,
    EventClientError,
    HookNotFoundError,
    InvalidEventError,
    Outcome,
    ProtocolError,
    Receipt,
    ThrottleError,
    TransportError,
    parse_event,
)
from tests.support.scripted_server import Reply, SeenRequest

from .answers import answered, batch_answer, log_of, refusal
from .samples import OTHER_RUN, RUN, event, mapping, pair, steps
from .stage import Honest, stage
from .write_rows import RESET, throttled
from .writing import ends, give, held, settle

# -- going together ----------------------------------------------------------------------------


async def test_a_hundred_writes_are_a_few_requests_in_order() -> None:
    server = Honest()
    async with stage(server) as it:
        receipts = await asyncio.gather(*give(it.client.writer(), steps(100)))
        assert it.sizes == [32, 32, 32, 4]
    assert [receipt.event for receipt in receipts] == steps(100)
    assert {receipt.outcome.value for receipt in receipts} == {"created"}
    assert server.log == [(RUN, f"step_{number}") for number in range(100)]


async def test_what_comes_during_a_batch_goes_in_the_next() -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server) as it:
        writer = it.client.writer()
        calls = give(writer, steps(2))
        await it.server.arrival(1)
        for number in range(2, 8):
            calls += give(writer, steps(1, number))
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*calls)
        assert it.sizes == [2, 6]
    assert server.log == [(RUN, f"step_{number}") for number in range(8)]


async def test_a_lone_write_is_a_single_post() -> None:
    async with stage(Honest()) as it:
        receipt = await it.client.writer().create(RUN, event("step_created"))
        assert (receipt.via, it.paths) == ("single", ["step_created"])


async def test_runs_do_not_wait_for_each_other() -> None:
    gate = asyncio.Event()

    def before(request: SeenRequest) -> Reply | None:
        return Reply(gate=gate) if OTHER_RUN in request.path else None

    async with stage(Honest(before)) as it:
        writer = it.client.writer()
        slow = give(writer, steps(3), OTHER_RUN)
        await it.server.arrival(1)
        await asyncio.gather(*give(writer, steps(3)))
        assert not any(call.done() for call in slow)
        gate.set()
        await asyncio.gather(*slow)


async def test_unbatchable_writes_keep_their_place() -> None:
    server = Honest()
    events = [*steps(2), event("hook_created", "h"), *pair("p"), event("run_completed")]
    async with stage(server) as it:
        await asyncio.gather(*give(it.client.writer(), events))
    assert server.taken == [(each.event_type, each.correlation_id) for each in events]


async def test_a_writer_may_linger_for_company() -> None:
    async with stage(Honest()) as it:
        writer = it.client.writer(linger_s=30.0)
        calls = give(writer, steps(3))
        await settle()
        assert it.server.requests == []
        calls += give(writer, steps(29, 3))
        await asyncio.gather(*calls)
        assert it.sizes == [32]


# -- each its own ------------------------------------------------------------------------------


async def test_a_refusal_reaches_its_own_caller_only() -> None:
    events = steps(4)
    async with stage([answered(batch_answer(events, [200, 409, 404, 500]))]) as it:
        first, *refused = await ends(give(it.client.writer(), events))
    assert isinstance(first, Receipt)
    kinds = [type(error).__name__ for error in refused]
    assert kinds == ["ConflictError", "NotFoundError", "TransportError"]
    for error, each in zip(refused, events[1:], strict=True):
        assert isinstance(error, EventClientError)
        assert [receipt.event for receipt in error.receipts] == [each]
        assert error.run_id == RUN


@pytest.mark.parametrize(
    ("reply", "kind", "outcome"),
    [
        (throttled("31"), ThrottleError, "unsent"),
        (Reply(), ProtocolError, "unknown"),
        (RESET, TransportError, "unknown"),
        (refusal(409), ConflictError, "conflict"),
    ],
)
async def test_an_error_of_the_request_reaches_every_caller_with_its_own_receipt(
    reply: Reply, kind: type[EventClientError], outcome: str
) -> None:
    events = [*steps(2), event("step_retrying", "r")]
    async with stage([reply]) as it:
        errors = await ends(give(it.client.writer(), events))
    assert len({id(error) for error in errors}) == 3
    for error, each in zip(errors, events, strict=True):
        assert type(error) is kind
        assert isinstance(error, EventClientError)
        (receipt,) = error.receipts
        assert (receipt.event, receipt.outcome.value) == (each, outcome)


async def test_our_own_landed_write_is_no_conflict() -> None:
    events = steps(2)
    conflicts = answered(batch_answer(events, [409, 409]))
    async with stage([RESET, conflicts, log_of(events)]) as it:
        receipts = await asyncio.gather(*give(it.client.writer(), events))
    assert [receipt.outcome for receipt in receipts] == [Outcome.ALREADY_APPLIED] * 2


async def test_a_writer_goes_on_after_a_failure() -> None:
    events = steps(2)
    async with stage([throttled("31"), answered(batch_answer(events))]) as it:
        writer = it.client.writer()
        await ends(give(writer, events))
        receipts = await asyncio.gather(*give(writer, events))
    assert [receipt.outcome for receipt in receipts] == [Outcome.CREATED] * 2


async def test_an_event_of_no_use_reaches_nobody_else() -> None:
    bad = parse_event(mapping("run_created", executionContext={"a": {1}}))
    large = event("step_created", "l", input=b"x" * 2000)
    async with stage(Honest(), max_batch_bytes=1000) as it:
        writer = it.client.writer()
        first, *errors, last = await ends(give(writer, [*steps(1), bad, large, *steps(1, 1)]))
        assert it.sizes == [2]
    assert isinstance(first, Receipt)
    assert isinstance(last, Receipt)
    fields = [error.field for error in errors if isinstance(error, InvalidEventError)]
    assert fields == ["eventData.executionContext.a", "eventData"]


async def test_a_gone_hook_is_told_as_one() -> None:
    async with stage([refusal(404)]) as it:
        with pytest.raises(HookNotFoundError):
            await it.client.writer().create(RUN, event("hook_received"))


# -- cancelled callers -------------------------------------------------------------------------


async def test_a_cancelled_caller_takes_its_waiting_event_back() -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server) as it:
        writer = it.client.writer()
        calls = give(writer, steps(2))
        await it.server.arrival(1)
        calls += give(writer, steps(3, 2))
        await settle()
        calls[3].cancel()
        await settle()
        gate.set()
        told = await ends(calls)
    assert [type(end).__name__ for end in told] == ["Receipt"] * 3 + ["CancelledError", "Receipt"]
    assert [key for _, key in server.log] == ["step_0", "step_1", "step_2", "step_4"]


async def test_a_cancelled_caller_does_not_take_back_what_has_been_sent() -> None:
    gate = asyncio.Event()
    server = held(gate)
    async with stage(server) as it:
        calls = give(it.client.writer(), steps(3))
        await it.server.arrival(1)
        calls[1].cancel()
        await settle()
        gate.set()
        told = await ends(calls)
    assert [type(end).__name__ for end in told] == ["Receipt", "CancelledError", "Receipt"]
    assert len(server.log) == 3
