"""`create` of a run_started: the whole log comes with the answer, or is fetched."""

from __future__ import annotations

import asyncio

import pytest

from eventclient import Outcome, ProtocolError, Receipt, TransportError
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import decode_frames, encode_frame
from tests.support.scripted_server import Fault, Reply

from .answers import answered, end_frame, event_frame, log_reply, refusal, single_answer, stored_map
from .samples import RUN, event, steps
from .stage import Stage, stage
from .write_rows import RESET, throttled

START = event("run_started")
HEAD = event_frame(stored_map(event("run_created"), 1), b"in") + event_frame(stored_map(START, 2))
TAIL = b"".join(event_frame(stored_map(each, slot)) for slot, each in enumerate(steps(2), 3))
MAX = {"x_wf_max_events": "25000"}
WHOLE = log_reply(HEAD + TAIL + end_frame("eid:4"), **MAX)


def check(receipt: Receipt, count: int = 4) -> None:
    assert (receipt.outcome, receipt.status, receipt.via) == (Outcome.CREATED, 200, "single")
    assert receipt.log is not None
    assert [each.event_id[-1] for each in receipt.log.events] == [str(slot) for slot in range(1, count + 1)]
    assert not receipt.log.has_more
    assert receipt.stored is not None
    assert receipt.stored.event_type == "run_started"
    assert receipt.run is not None
    assert (receipt.run.status, receipt.run.input, receipt.run.deployment_id) == ("running", b"in", "dpl_1")
    assert receipt.max_events == 25000


def queries(it: Stage) -> list[list[tuple[str, str]]]:
    return [request.query for request in it.server.requests[1:]]


async def test_the_whole_log_comes_along() -> None:
    async with stage([WHOLE]) as it:
        receipt = await it.client.create(RUN, START)
        (request,) = it.server.requests
    check(receipt)
    assert receipt.log is not None
    assert receipt.log.cursor == "eid:4"
    assert request.headers["Accept"] == "application/vnd.workflow.v4-frames"
    assert "skipPreload" not in decode_frames(request.body)[0].meta


REST = [
    ("returnAll", "true"),
    ("cursor", "eid:evnt_00000000000000000000000002"),
    ("remoteRefBehavior", "resolve"),
]


@pytest.mark.parametrize(
    "first",
    [
        log_reply(HEAD + end_frame("eid:evnt_00000000000000000000000002", has_more=True), **MAX),
        # The end is missing, with or without a word from the connection.
        log_reply(HEAD, **MAX),
        log_reply(HEAD + TAIL[:7], **MAX),
        Reply(headers=WHOLE.headers, body=WHOLE.body, fault=Fault.CLOSE_MID_BODY, fault_after=len(HEAD) + 9),
        Reply(headers=WHOLE.headers, body=WHOLE.body, fault=Fault.CLOSE_MID_CHUNKED, fault_after=len(HEAD)),
    ],
    ids=["more", "cut between frames", "cut in a frame", "short body", "short chunks"],
)
async def test_the_rest_of_the_log_is_fetched(first: Reply) -> None:
    async with stage([first, log_reply(TAIL + end_frame("eid:4"))]) as it:
        check(await it.client.create(RUN, START))
        assert queries(it) == [REST]


async def test_without_the_log_the_answer_is_a_map() -> None:
    async with stage([answered(single_answer(START))]) as it:
        receipt = await it.client.create(RUN, START, skip_preload=True)
        (request,) = it.server.requests
    assert (receipt.outcome, receipt.log) == (Outcome.CREATED, None)
    assert receipt.run is not None
    assert request.headers["Accept"] == "*/*"
    assert decode_frames(request.body)[0].meta["skipPreload"] is True


ERROR = encode_frame(encode_value({"_error": 1, "code": "payload-missing"}), b"")


@pytest.mark.parametrize(
    "reply",
    [
        answered(single_answer(START)),
        log_reply(WHOLE.body),
        log_reply(WHOLE.body, x_wf_max_events="0"),
        log_reply(WHOLE.body, x_wf_max_events="many"),
        log_reply(b"", **MAX),
        log_reply(HEAD[:9], **MAX),
        log_reply(end_frame("c"), **MAX),
        log_reply(HEAD + end_frame(None), **MAX),
        log_reply(HEAD + encode_frame(b"\x01", b""), **MAX),
    ],
    ids=["map", "no limit", "limit 0", "limit a word", "empty", "cut", "no events", "no cursor", "malformed"],
)
async def test_an_answer_that_is_no_log_is_ambiguous_and_sent_again(reply: Reply) -> None:
    async with stage([reply, WHOLE]) as it:
        check(await it.client.create(RUN, START))
        assert it.server.identical_bodies
        assert it.clock.sleeps == [0.1]
    async with stage([reply], repeat_last=True) as it:
        with pytest.raises(ProtocolError) as raised:
            await it.client.create(RUN, START)
        assert raised.value.receipts[0].outcome is Outcome.UNKNOWN
        assert len(it.server.requests) == 3


async def test_a_log_the_server_cannot_finish_is_final() -> None:
    async with stage([log_reply(ERROR, **MAX)]) as it:
        with pytest.raises(ProtocolError, match="cannot be replayed") as raised:
            await it.client.create(RUN, START)
        assert (raised.value.code, raised.value.run_id) == ("payload-missing", RUN)
        assert len(it.server.requests) == 1


async def test_a_log_without_its_beginning_is_refused() -> None:
    async with stage([log_reply(TAIL + end_frame("c"), **MAX)]) as it:
        with pytest.raises(ProtocolError, match="lacks its") as raised:
            await it.client.create(RUN, START)
        assert raised.value.receipts[0].outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("reply", [refusal(404), throttled("1"), Reply(status=503)])
async def test_a_rest_that_cannot_be_fetched_leaves_the_write_unknown(reply: Reply) -> None:
    async with stage([log_reply(HEAD, **MAX), reply], repeat_last=True) as it:
        with pytest.raises(Exception, match="list of events") as raised:
            await it.client.create(RUN, START)
    receipts = raised.value.receipts  # type: ignore[attr-defined]
    assert receipts[0].outcome is Outcome.UNKNOWN


async def test_cancelled_while_the_rest_is_fetched_it_is_unknown() -> None:
    async with stage([log_reply(HEAD, **MAX), Reply(fault=Fault.NEVER)]) as it:
        call = asyncio.ensure_future(it.client.create(RUN, START))
        await it.server.arrival(2)
        (left,) = await it.client.aclose(within=0)
        assert left.outcome is Outcome.UNKNOWN
        with pytest.raises(TransportError):
            await call


async def test_a_lost_start_is_sent_again() -> None:
    async with stage([RESET, Reply(status=503), WHOLE]) as it:
        receipt = await it.client.create(RUN, START)
        check(receipt)
        assert len(receipt.attempts) == 3


async def test_in_a_batch_call_a_start_asks_for_no_log() -> None:
    async with stage([answered(single_answer(START))]) as it:
        (receipt,) = await it.client.create_batch(RUN, [START])
        assert receipt.log is None
        (frame,) = decode_frames(it.server.requests[0].body)
        assert frame.meta["skipPreload"] is True
