"""Whose 409 it was: settled by the server's keys, or by one look at the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from eventclient import (
    NO_RETRY,
    ConflictError,
    Event,
    EventClientError,
    Receipt,
    RetryOptions,
    TransportError,
    parse_event,
)
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Fault, Reply, SeenRequest

from .answers import answered, batch_answer, log_of, log_reply, refusal, single_answer
from .keyed import deadline, in_progress, supporting, told
from .samples import LATER, NOW, RUN, event, mapping, pair, steps
from .stage import Stage, stage
from .write_rows import RESET, throttled

CONFLICT = refusal(409, "conflict")
STEP = event("step_created", "step_0", input=b"ours")
OTHERS = event("step_created", "step_0", input=b"theirs")


async def created(it: Stage, events: Sequence[Event]) -> tuple[Receipt, ...]:
    """The receipts of a `create_batch`, raised or returned."""
    try:
        return tuple(await it.client.create_batch(RUN, events))
    except EventClientError as error:
        return error.receipts


# -- where the server keeps keys ---------------------------------------------------------------


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize(
    ("status", "outcome"), [(200, "created"), (409, "conflict"), (404, "rejected"), (410, "rejected")]
)
async def test_its_answer_settles_every_item(status: int, outcome: str, replayed: bool) -> None:
    events = [*steps(1), *pair()]
    answer = supporting(answered(batch_answer(events, [status] * 3)), replayed=replayed)
    async with stage([supporting(Reply(status=500)), answer]) as it:
        receipts = await created(it, events)
        assert {receipt.outcome.value for receipt in receipts} == {outcome}
        assert it.gets == []


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, "rejected"), (404, "rejected"), (409, "conflict"), (412, "rejected"), (425, "rejected")],
)
async def test_its_answer_settles_a_single_post(status: int, outcome: str) -> None:
    async with stage([supporting(Reply(status=500)), supporting(refusal(status, "c"), named=True)]) as it:
        (receipt,) = await created(it, [event("step_started")])
        assert (receipt.outcome.value, it.gets) == (outcome, [])


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_what_may_be_said_of_the_route_settles_nothing_unless_the_key_is_named(status: int) -> None:
    async with stage([supporting(Reply(status=500)), supporting(refusal(status, "c"))]) as it:
        (receipt,) = await created(it, [event("step_started")])
        assert receipt.outcome.value == "unknown"


@pytest.mark.parametrize("status", [404, 409, 410])
async def test_where_keys_are_named_an_answer_that_names_none_settles_nothing(status: int) -> None:
    """Such as one that a fault of the server's own made up."""
    taken = supporting(answered(single_answer(STEP)), named=True)
    async with stage([taken, RESET, supporting(refusal(status, "c")), log_of([STEP])]) as it:
        await it.client.create(RUN, STEP)
        (receipt,) = await created(it, [STEP])
        assert receipt.outcome.value == ("already_applied" if status == 409 else "unknown")


@pytest.mark.parametrize("status", [409, 410, 412])
async def test_its_refusal_of_a_whole_batch_is_definitive(status: int) -> None:
    async with stage([RESET, supporting(refusal(status, "c"))]) as it:
        receipts = await created(it, steps(3))
        assert {receipt.outcome.value for receipt in receipts} == {
            "conflict" if status == 409 else "rejected"
        }
        assert it.gets == []


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_so_single_posts_may_follow_a_lost_answer(status: int) -> None:
    events = steps(2)
    singles = [supporting(answered(single_answer(each))) for each in events]
    async with stage([RESET, supporting(refusal(status), named=True), *singles]) as it:
        result = await it.client.create_batch(RUN, events)
        assert it.paths == ["batch", "batch", "step_created", "step_created"]
        assert [receipt.outcome.value for receipt in result] == ["created"] * 2


@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize("advertised", [False, True])
async def test_where_the_key_was_not_looked_up_they_may_not(status: int, advertised: bool) -> None:
    refused = supporting(refusal(status)) if advertised else refusal(status)
    async with stage([RESET, refused]) as it:
        receipts = await created(it, steps(2))
        assert it.paths == ["batch", "batch"]
        assert {receipt.outcome.value for receipt in receipts} == {"unknown"}


@pytest.mark.parametrize("status", [401, 403, 408, 413, 421, 431])
@pytest.mark.parametrize(("replayed", "outcome"), [(False, "unknown"), (True, "rejected")])
async def test_what_is_said_before_the_key_is_looked_up_says_nothing_of_the_attempt_before(
    status: int, replayed: bool, outcome: str
) -> None:
    async with stage([RESET, supporting(refusal(status), replayed=replayed)]) as it:
        receipts = await created(it, steps(2))
        assert {receipt.outcome.value for receipt in receipts} == {outcome}


async def test_a_throttle_says_nothing_of_the_attempt_before() -> None:
    async with stage([RESET, supporting(throttled("31"))]) as it:
        receipts = await created(it, steps(2))
        assert {receipt.outcome.value for receipt in receipts} == {"unknown"}


# -- where it does not -------------------------------------------------------------------------


@pytest.mark.parametrize("first", [RESET, Reply(status=503), Reply(body=b"junk")])
async def test_an_equal_event_in_the_log_is_ours(first: Reply) -> None:
    async with stage([first, CONFLICT, log_of([STEP])]) as it:
        receipt = await it.client.create(RUN, STEP)
        (request,) = it.gets
    assert (receipt.outcome.value, receipt.persisted, receipt.status) == ("already_applied", "yes", 409)
    assert receipt.stored is not None
    assert (receipt.stored.correlation_id, receipt.stored.payload) == ("step_0", b"ours")
    assert [attempt.status for attempt in receipt.attempts][-1] == 409
    assert request.path == "/api/v4/events"
    assert dict(request.query) == {
        "correlationId": "step_0",
        "runId": RUN,
        "remoteRefBehavior": "resolve",
    }


DIFFERENT: dict[str, tuple[Reply, str]] = {
    "equal": (log_of([STEP]), "already_applied"),
    "empty": (log_of([]), "unknown"),
    "another payload": (log_of([OTHERS]), "conflict"),
    "another type": (log_of([event("step_completed", "step_0")]), "unknown"),
    "another occurredAt": (log_of([STEP], occurredAt=LATER), "conflict"),
    "its occurredAt": (log_of([STEP], occurredAt=NOW, createdAt=LATER), "already_applied"),
    "another createdAt": (log_of([STEP], createdAt=LATER), "unknown"),
    "another's run": (log_of([STEP], runId="wrun_other"), "unknown"),
    "payload gone": (log_of([event("step_created", "step_0")]), "unknown"),
    "refused": (refusal(404), "unknown"),
    "no log": (answered(b"\xa0"), "unknown"),
    "cut": (Reply(headers=log_of([STEP]).headers, body=log_of([STEP]).body[:-9]), "unknown"),
    "throttled": (throttled("1"), "unknown"),
    "corrupt": (log_reply(b"\x00\x00\x00\x01\x01\x00\x00\x00\x00"), "unknown"),
}


@pytest.mark.parametrize(("log", "outcome"), DIFFERENT.values(), ids=DIFFERENT)
async def test_what_the_log_tells(log: Reply, outcome: str) -> None:
    async with stage([RESET, CONFLICT, log]) as it:
        (receipt,) = await created(it, [STEP])
        assert (receipt.outcome.value, len(it.gets)) == (outcome, 1)
        assert receipt.persisted == {"already_applied": "yes", "conflict": "no"}.get(outcome, "unknown")
        assert (receipt.stored is not None) is (outcome == "already_applied")
    async with stage([RESET, CONFLICT, log]) as it:
        if outcome == "already_applied":
            assert (await it.client.create(RUN, STEP)).outcome.value == outcome
            return
        error = ConflictError if outcome == "conflict" else TransportError
        with pytest.raises(error) as raised:
            await it.client.create(RUN, STEP)
        assert raised.value.receipts[0].outcome.value == outcome
        assert getattr(raised.value, "ambiguous", False) is (outcome == "unknown")


async def test_a_log_that_cannot_be_read_is_read_as_any_and_raises_nothing_of_its_own() -> None:
    async with stage([RESET, CONFLICT, Reply(status=503)], repeat_last=True) as it:
        (receipt,) = await created(it, [STEP])
        assert receipt.outcome.value == "unknown"
        # The reads' own retries.
        assert (len(it.gets), it.clock.sleeps[1:]) == (6, [0.5, 1.0, 2.0, 4.0, 8.0])


async def test_it_is_the_instant_that_went_out() -> None:
    """The event names none, so it is that of the call, not of the resend."""
    clock = FakeClock()

    def script(request: SeenRequest) -> Reply:
        clock.advance(5.0)
        return [RESET, CONFLICT, log_of([STEP])][len(it.server.requests) - 1]

    async with stage(script, clock=clock) as it:
        assert (await it.client.create(RUN, STEP)).outcome.value == "already_applied"


async def test_a_written_instant_is_compared_in_milliseconds() -> None:
    own = parse_event(mapping("step_created", "step_0") | {"occurredAt": NOW + timedelta(microseconds=1999)})
    stored = log_of([own], createdAt=NOW + timedelta(milliseconds=1))
    async with stage([RESET, CONFLICT, stored]) as it:
        assert (await it.client.create(RUN, own)).outcome.value == "already_applied"


# -- one read for a request --------------------------------------------------------------------


async def test_several_conflicts_of_a_batch_cost_one_read_of_the_log() -> None:
    events = steps(4)
    kept = [events[0], event("step_created", "step_1", input=b"theirs"), events[2]]
    async with stage([RESET, answered(batch_answer(events, [409, 409, 409])), log_of(kept)]) as it:
        result = await it.client.create_batch(RUN, events)
        (request,) = it.gets
    outcomes = [receipt.outcome.value for receipt in result]
    assert outcomes == ["already_applied", "conflict", "already_applied", "created"]
    assert request.path == f"/api/v4/runs/{RUN}/events"
    assert dict(request.query) == {"returnAll": "true", "remoteRefBehavior": "resolve"}
    assert (result.ledger.reads, result.ledger.requests) == (1, 3)


async def test_one_conflict_of_a_batch_is_read_by_its_correlation_id() -> None:
    events = steps(3)
    async with stage([RESET, answered(batch_answer(events, [200, 409])), log_of([events[1]])]) as it:
        result = await it.client.create_batch(RUN, events)
        (request,) = it.gets
    assert [receipt.outcome.value for receipt in result] == ["created", "already_applied", "created"]
    assert dict(request.query)["correlationId"] == "step_1"


async def test_an_event_without_a_correlation_id_is_read_in_the_log() -> None:
    end = event("run_completed", output=b"out")
    async with stage([RESET, CONFLICT, log_of([*steps(2), end])]) as it:
        receipt = await it.client.create(RUN, end)
        (request,) = it.gets
    assert (receipt.outcome.value, request.path) == ("already_applied", f"/api/v4/runs/{RUN}/events")


async def test_each_settled_request_is_read_for_itself() -> None:
    events = [event("hook_created", "h"), event("hook_created", "i")]
    others = event("hook_created", "i", metadata=b"theirs")
    script = [RESET, CONFLICT, log_of(events[:1]), RESET, CONFLICT, log_of([others])]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, events)
        assert [receipt.outcome.value for receipt in result] == ["already_applied", "conflict"]
        assert result.ledger.reads == 2


@pytest.mark.parametrize("status", [404, 410, 412, 425])
async def test_other_refusals_stay_open_and_nothing_is_read(status: int) -> None:
    async with stage([RESET, answered(batch_answer(steps(2), [status]))]) as it:
        result = await it.client.create_batch(RUN, steps(2))
        assert ([receipt.outcome.value for receipt in result], it.gets) == (["unknown", "created"], [])


async def test_nothing_is_read_where_nothing_was_lost() -> None:
    async with stage([throttled("1"), CONFLICT]) as it:
        with pytest.raises(ConflictError):
            await it.client.create(RUN, STEP)
        assert it.gets == []


@pytest.mark.parametrize("pending", [in_progress(), told(409, "request_in_progress", advert=False)])
async def test_what_may_land_yet_is_no_conflict(pending: Reply) -> None:
    async with stage([RESET, pending]) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create(RUN, STEP)
        assert (raised.value.ambiguous, raised.value.receipts[0].outcome) == (True, "unknown")
        assert it.gets == []


async def test_a_conflict_behind_one_that_was_being_executed_is_read_too() -> None:
    async with stage([deadline("1"), CONFLICT, log_of([STEP])]) as it:
        assert (await it.client.create(RUN, STEP)).outcome.value == "already_applied"


# -- a batch that is refused whole -------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "outcomes", "error"),
    [
        (2, ["already_applied"] * 2, None),
        (1, ["already_applied", "conflict"], ConflictError),
        (0, ["conflict"] * 2, ConflictError),
    ],
)
async def test_a_batch_refused_whole_is_settled_event_by_event(
    kept: int, outcomes: list[str], error: type[EventClientError] | None
) -> None:
    others = [event("step_created", f"step_{number}", input=b"theirs") for number in range(kept, 2)]
    async with stage([RESET, CONFLICT, log_of([*steps(kept), *others])]) as it:
        caught: EventClientError | None = None
        try:
            receipts = tuple(await it.client.create_batch(RUN, steps(2)))
        except EventClientError as raised:
            caught, receipts = raised, raised.receipts
    assert [receipt.outcome.value for receipt in receipts] == outcomes
    assert type(caught) is (error or type(None))


async def test_where_that_cannot_be_told_the_error_is_ambiguous() -> None:
    async with stage([RESET, CONFLICT, refusal(404)]) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, steps(2))
    assert raised.value.ambiguous
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}
    assert len(raised.value.receipts) == 2


# -- off by option -----------------------------------------------------------------------------


async def test_it_can_be_switched_off() -> None:
    async with stage([RESET, CONFLICT], retry=RetryOptions(read_back=False)) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create(RUN, STEP)
        assert raised.value.ambiguous
        assert (raised.value.receipts[0].outcome, raised.value.receipts[0].status) == ("unknown", 409)
        assert it.gets == []
    async with stage(
        [RESET, answered(batch_answer(steps(2), [409] * 2))], retry=RetryOptions(read_back=False)
    ) as it:
        result = await it.client.create_batch(RUN, steps(2))
        assert {receipt.outcome.value for receipt in result} == {"unknown"}
        assert it.gets == []


async def test_no_retry_reads_nothing() -> None:
    async with stage([CONFLICT], retry=NO_RETRY) as it:
        with pytest.raises(ConflictError):
            await it.client.create(RUN, STEP)
        assert it.gets == []


# -- the start behind its create ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "outcomes", "paths"),
    [
        (log_of([STEP]), ["already_applied", "created"], ["step_created"] * 2 + ["events", "step_started"]),
        (log_of([OTHERS]), ["conflict", "conflict"], ["step_created"] * 2 + ["events"]),
        (refusal(404), ["unknown", "unsent"], ["step_created"] * 2 + ["events"]),
    ],
    ids=["ours", "another's", "unknown"],
)
async def test_a_start_is_sent_behind_a_create_that_is_ours(
    log: Reply, outcomes: list[str], paths: list[str]
) -> None:
    start = event("step_started", "step_0")
    async with stage([RESET, CONFLICT, log, answered(single_answer(start))], batch=False) as it:
        receipts = await created(it, [STEP, start])
        assert [receipt.outcome.value for receipt in receipts] == outcomes
        assert it.paths == paths


async def test_a_step_that_was_completed_meanwhile_is_told_by_its_log() -> None:
    done = event("step_completed", "step_0", result=b"r")
    log = log_of([STEP, event("step_started", "step_0"), done])
    async with stage([RESET, CONFLICT, log]) as it:
        receipt = await it.client.create(RUN, done)
    assert receipt.outcome.value == "already_applied"
    assert receipt.stored is not None
    assert receipt.stored.event_id.endswith("3")


async def test_broken_off_while_reading_it_is_unknown() -> None:
    async with stage([RESET, CONFLICT, Reply(fault=Fault.NEVER)]) as it:
        call = asyncio.ensure_future(it.client.create_batch(RUN, [STEP]))
        await it.server.arrival(3)
        (left,) = await it.client.aclose(within=0)
        assert (left.outcome.value, left.status) == ("unknown", 409)
        with pytest.raises(TransportError):
            await call
