"""Status x headers x body x events: how many requests, how long a wait, how it ends. One table."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import pytest

from eventclient import (
    NO_RETRY,
    AuthenticationError,
    BatchResult,
    ConflictError,
    EventClient,
    EventClientError,
    PreconditionFailedError,
    ProtocolError,
    Receipt,
    RejectedError,
    RunExpiredError,
    ThrottleError,
    TooEarlyError,
    TransportError,
)
from eventclient.wire.codec import encode_value
from tests.support.scripted_server import Reply

from .answers import answered, batch_answer, item_map, log_of, refusal, single_answer
from .samples import OTHER_RUN, RUN, event
from .stage import Stage, stage
from .write_rows import RESET, ROWS, SUBJECTS, Row, Subject, throttled

each_subject = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


@each_subject
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_requests_and_waits(row: Row, subject: Subject) -> None:
    script = list(row.first) if row.endless else [*row.first, subject.success]
    async with stage(script, repeat_last=row.endless) as it:
        if row.ambiguous_error is not None and not subject.converges:
            await _ends(it, subject, row.ambiguous_error, [])
        elif row.error is not None:
            await _ends(it, subject, row.error, row.waits)
        else:
            receipts = await subject.write(it.client)
            assert [receipt.outcome for receipt in receipts] == ["created"] * len(subject.events)
            assert it.clock.sleeps == pytest.approx(row.waits)
            assert len(it.server.requests) == len(row.waits) + 1
        assert len({request.body for request in it.posts}) == 1
        assert it.server.unscripted == 0


async def _ends(it: Stage, subject: Subject, error: type[EventClientError], waits: Sequence[float]) -> None:
    with pytest.raises(error) as raised:
        await subject.write(it.client)
    assert type(raised.value) is error
    assert it.clock.sleeps == pytest.approx(list(waits))
    assert len(it.server.requests) == len(waits) + 1
    receipts = raised.value.receipts
    assert [receipt.event for receipt in receipts] == list(subject.events)
    ambiguous = error in (TransportError, ProtocolError)
    expected = {"rejected"} if error is AuthenticationError else {"unknown" if ambiguous else "unsent"}
    assert {receipt.outcome.value for receipt in receipts} == expected
    assert {len(receipt.attempts) for receipt in receipts} == {len(waits) + 1}
    if isinstance(raised.value, ThrottleError):
        assert raised.value.waited == pytest.approx(sum(waits))
        assert raised.value.budget == 30.0
        assert raised.value.retry_after + raised.value.waited > 30.0
    if isinstance(raised.value, TransportError):
        assert raised.value.ambiguous


# -- malformed answers to a batch --------------------------------------------------------------

BATCH: Final = SUBJECTS["batch of creates"]
ITEMS: Final = [item_map(each, slot=slot) for slot, each in enumerate(BATCH.events, 1)]


@pytest.mark.parametrize(
    "body",
    [
        batch_answer(BATCH.events)[:-1],
        batch_answer(BATCH.events) + b"\x00",
        json.dumps({"results": []}).encode(),
        encode_value({"results": ITEMS[:-1]}),
        encode_value({"results": [*ITEMS, ITEMS[0]]}),
        encode_value({"results": [ITEMS[1], ITEMS[0], ITEMS[2]]}),
        encode_value({"results": [{"status": 201, **ITEMS[0]["event"]}, *ITEMS[1:]]}),
        encode_value({"results": [item_map(event("step_completed", "step_0")), *ITEMS[1:]]}),
        encode_value({"results": [item_map(BATCH.events[0], run_id=OTHER_RUN), *ITEMS[1:]]}),
    ],
    ids=["cut", "a tail", "json", "short", "long", "swapped", "odd status", "wrong type", "foreign run"],
)
async def test_a_malformed_batch_answer_is_ambiguous(body: bytes) -> None:
    async with stage([answered(body)], repeat_last=True) as it:
        await _ends(it, BATCH, ProtocolError, [0.1, 0.2])
        assert it.paths == ["batch"] * 3


# -- refusals of the whole request -------------------------------------------------------------

CODE: Final = "batch-requires-slot-identity"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (409, ConflictError),
        (410, RunExpiredError),
        (412, PreconditionFailedError),
        (413, RejectedError),
        (425, TooEarlyError),
        (422, RejectedError),
    ],
)
async def test_other_refusals_of_a_batch_stand(status: int, error: type[RejectedError]) -> None:
    async with stage([refusal(status, "some-code", Retry_After="5")]) as it:
        with pytest.raises(error) as raised:
            await BATCH.write(it.client)
        assert type(raised.value) is error
        assert (raised.value.status, raised.value.code, raised.value.retry_after) == (
            status,
            "some-code",
            5.0,
        )
        assert (it.paths, it.clock.sleeps) == (["batch"], [])
        outcome = "conflict" if status == 409 else "rejected"
        assert {receipt.outcome.value for receipt in raised.value.receipts} == {outcome}


@pytest.mark.parametrize(
    ("status", "code"), [(404, None), (405, None), (400, None), (400, CODE), (400, "other")]
)
async def test_a_refused_batch_route_costs_one_request(status: int, code: str | None) -> None:
    singles = [answered(single_answer(each)) for each in BATCH.events]
    async with stage([refusal(status, code), *singles]) as it:
        receipts = await BATCH.write(it.client)
        assert [(receipt.outcome.value, receipt.via) for receipt in receipts] == [("created", "single")] * 3
        assert (it.paths, it.clock.sleeps) == (["batch", *["step_created"] * 3], [])


@pytest.mark.parametrize("status", [400, 404, 405, 409, 410, 412, 413, 425])
@pytest.mark.parametrize("name", ["step_started", "one of a batch", "create", "create of a start"])
async def test_a_refused_single_post_is_final(status: int, name: str) -> None:
    async with stage([refusal(status, CODE)]) as it:
        write: Callable[[EventClient], Awaitable[list[Receipt]]] = SUBJECTS[name].write
        if name.startswith("create"):
            with pytest.raises(RejectedError) as raised:
                await write(it.client)
            (receipt,) = raised.value.receipts
        else:
            (receipt,) = await write(it.client)
        assert (receipt.status, receipt.code) == (status, CODE)
        assert receipt.outcome == ("conflict" if status == 409 else "rejected")
        assert (len(it.paths), it.clock.sleeps) == (1, [])


# -- options -----------------------------------------------------------------------------------


@each_subject
@pytest.mark.parametrize(
    ("reply", "error"),
    [(throttled("1"), ThrottleError), (Reply(status=503), TransportError), (RESET, TransportError)],
)
async def test_no_retry_sends_once(reply: Reply, error: type[EventClientError], subject: Subject) -> None:
    async with stage([reply], retry=NO_RETRY) as it:
        await _once(it, subject, error)


async def _once(it: Stage, subject: Subject, error: type[EventClientError]) -> None:
    with pytest.raises(error):
        await subject.write(it.client)
    assert (len(it.paths), it.clock.sleeps) == (1, [])


async def test_a_landed_create_reads_as_our_own() -> None:
    conflicts = answered(batch_answer(BATCH.events, [409, 409, 409]))
    async with stage([RESET, conflicts, log_of(BATCH.events)]) as it:
        result = await it.client.create_batch(RUN, BATCH.events)
        assert isinstance(result, BatchResult)
        assert [receipt.outcome.value for receipt in result] == ["already_applied"] * 3
        assert {receipt.persisted for receipt in result} == {"yes"}
        result.raise_for_failures()
