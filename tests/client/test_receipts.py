"""Outcomes, receipts and attempts: what each event met, and that errors say it too."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient import (
    ConflictError,
    HookNotFoundError,
    InvalidEventError,
    NotFoundError,
    Outcome,
    PreconditionFailedError,
    RejectedError,
    RunExpiredError,
    ThrottleError,
    TransportError,
    parse_event,
)
from eventclient.model.events import Event
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import decode_frames
from tests.support.scripted_server import Reply

from .answers import answered, batch_answer, log_of, refusal, single_answer, stored_map, success_map
from .samples import RUN, event, mapping, pair, steps
from .stage import stage
from .write_rows import RESET, throttled


async def test_an_empty_call_sends_nothing() -> None:
    async with stage([]) as it:
        result = await it.client.create_batch(RUN, [])
        assert (len(result), result.ledger.requests, it.paths) == (0, 0, [])
        result.raise_for_failures()


async def test_results_are_taken_by_their_place() -> None:
    events = steps(4)
    async with stage([answered(batch_answer(events, [200, 409, 500, 404]))]) as it:
        result = await it.client.create_batch(RUN, events)
    outcomes = [Outcome.CREATED, Outcome.CONFLICT, Outcome.UNKNOWN, Outcome.REJECTED]
    assert [receipt.outcome for receipt in result] == outcomes
    assert [receipt.index for receipt in result] == [0, 1, 2, 3]
    assert [receipt.event for receipt in result] == events
    assert [receipt.status for receipt in result] == [200, 409, 500, 404]
    assert [receipt.code for receipt in result] == [None, "conflict", "code-500", "code-404"]
    assert [receipt.persisted for receipt in result] == ["yes", "no", "unknown", "no"]
    assert {receipt.via for receipt in result} == {"batch"}
    assert {receipt.run_id for receipt in result} == {RUN}
    stored = result[0].stored
    assert stored is not None
    assert stored.event_id.endswith("1")
    assert (result.created, result.conflicts, result.failures) == (result[:1], result[1:2], result[2:])
    with pytest.raises(TransportError) as raised:
        result.raise_for_failures()
    assert raised.value.receipts == tuple(result)
    assert raised.value.event_index == 2


async def test_every_try_is_an_attempt() -> None:
    events = steps(2)
    script = [throttled("3"), Reply(status=503), RESET, answered(batch_answer(events))]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, events)
    told = [(each.number, each.status, each.wait_s, each.cause) for each in result[0].attempts]
    assert told == [
        (1, 429, 0.0, "throttled"),
        (2, 503, 3.0, "ambiguous"),
        (3, None, 0.1, "ambiguous"),
        (4, 200, 0.2, "ok"),
    ]
    assert result[1].attempts == result[0].attempts
    ledger = result.ledger
    assert (ledger.requests, ledger.throttled_s, ledger.fallbacks) == (4, 3.0, 0)
    assert ledger.backoff_s == pytest.approx(0.3)
    assert ledger.wall_s == pytest.approx(3.3)
    assert ledger.bytes == sum(len(request.body) for request in it.server.requests)


async def test_a_call_goes_on_behind_an_event_that_is_refused_by_itself() -> None:
    events = [event("hook_created", "h"), event("hook_disposed", "x"), *steps(2)]
    script = [refusal(409), refusal(404, "hook-not-found"), answered(batch_answer(events[2:]))]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, events)
    assert [receipt.outcome.value for receipt in result] == ["conflict", "rejected", "created", "created"]
    assert isinstance(result[1].error(), HookNotFoundError)
    assert [receipt.via for receipt in result] == ["single", "single", "batch", "batch"]


async def test_an_error_of_a_later_request_knows_what_went_before() -> None:
    events = steps(6)
    script = [answered(batch_answer(events[:2], [200, 409])), throttled("31")]
    async with stage(script, max_batch_events=2) as it:
        with pytest.raises(ThrottleError) as raised:
            await it.client.create_batch(RUN, events)
    told = [receipt.outcome.value for receipt in raised.value.receipts]
    assert told == ["created", "conflict", "unsent", "unsent", "unsent", "unsent"]
    assert [receipt.index for receipt in raised.value.receipts] == list(range(6))
    assert [len(receipt.attempts) for receipt in raised.value.receipts] == [1, 1, 1, 1, 0, 0]
    assert raised.value.run_id == RUN


# -- behind an answer that was lost ------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "created"), (409, "already_applied"), (404, "unknown"), (410, "unknown"), (500, "unknown")],
)
async def test_what_an_answer_means_behind_a_lost_one(status: int, outcome: str) -> None:
    events = steps(2)
    async with stage([RESET, answered(batch_answer(events, [status])), log_of(events)]) as it:
        result = await it.client.create_batch(RUN, events)
    assert [receipt.outcome.value for receipt in result] == [outcome, "created"]


async def test_a_conflict_without_a_lost_answer_is_someone_else_s() -> None:
    events = steps(2)
    async with stage([throttled("1"), answered(batch_answer(events, [409, 409]))]) as it:
        result = await it.client.create_batch(RUN, events)
    assert [receipt.outcome.value for receipt in result] == ["conflict"] * 2


async def test_a_throttle_behind_a_lost_answer_settles_nothing() -> None:
    async with stage([RESET, throttled("31")]) as it:
        with pytest.raises(ThrottleError) as raised:
            await it.client.create_batch(RUN, steps(2))
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}


# -- create ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "step_created", RejectedError),
        (404, "step_completed", NotFoundError),
        (404, "hook_received", HookNotFoundError),
        (404, "hook_created", NotFoundError),
        (409, "step_created", ConflictError),
        (410, "run_started", RunExpiredError),
    ],
)
async def test_create_raises_the_typed_error(status: int, kind: str, error: type[RejectedError]) -> None:
    async with stage([refusal(status, "some-code")]) as it:
        with pytest.raises(error) as raised:
            await it.client.create(RUN, event(kind), skip_preload=True)
    assert type(raised.value) is error
    assert (raised.value.status, raised.value.code, raised.value.run_id) == (status, "some-code", RUN)
    assert "told so" in str(raised.value)
    (receipt,) = raised.value.receipts
    assert (receipt.outcome.value, receipt.status) == ("conflict" if status == 409 else "rejected", status)


async def test_create_reads_a_conflict_behind_a_lost_answer_as_its_own() -> None:
    async with stage([RESET, refusal(409), log_of([event("step_created")])]) as it:
        receipt = await it.client.create(RUN, event("step_created"))
    assert (receipt.outcome, receipt.persisted) == (Outcome.ALREADY_APPLIED, "yes")


async def test_create_does_not_take_another_refusal_for_an_answer() -> None:
    async with stage([RESET, refusal(404)]) as it:
        with pytest.raises(NotFoundError) as raised:
            await it.client.create(RUN, event("step_completed"))
    assert raised.value.receipts[0].outcome is Outcome.UNKNOWN


async def test_a_held_token_is_a_conflict() -> None:
    told = success_map(event("hook_created"))
    told["event"] |= {"eventType": "hook_conflict", "eventData": {"token": "tok", "conflictingRunId": "r"}}
    async with stage([answered(encode_value(told))] * 2) as it:
        single = await it.client.create(RUN, event("hook_created"))
        (batched,) = await it.client.create_batch(RUN, [event("hook_created")])
    for receipt in (single, batched):
        assert (receipt.outcome, receipt.status) == (Outcome.CONFLICT, 200)
        assert receipt.stored is not None
        assert receipt.stored.event_data == {"token": "tok", "conflictingRunId": "r"}


async def test_what_an_answer_brings_is_in_the_receipt() -> None:
    start = event("step_started", stepName="s", input=b"x")
    told = success_map(start) | {"stepCreated": True, "maxEvents": 25000}
    told |= {"events": [stored_map(start, 3)], "cursor": "eid:3", "hasMore": False}
    async with stage([answered(encode_value(told))]) as it:
        receipt = await it.client.create(RUN, start, since_cursor="eid:2", event_count=2)
    assert receipt.step is not None
    assert (receipt.step_created, receipt.max_events, receipt.step.attempt) == (True, 25000, 1)
    assert receipt.log is not None
    assert (len(receipt.log.events), receipt.log.cursor) == (1, "eid:3")
    (frame,) = decode_frames(it.server.requests[0].body)
    assert (frame.meta["sinceCursor"], frame.meta["maxSlot"]) == ("eid:2", 2)


async def test_a_412_brings_the_missing_part_of_the_log() -> None:
    body = encode_value({"message": "stale", "events": [stored_map(event("step_created"))], "cursor": "c"})
    async with stage([Reply(status=412, headers={"Content-Type": "application/cbor"}, body=body)]) as it:
        with pytest.raises(PreconditionFailedError) as raised:
            await it.client.create(RUN, event("step_created"))
    assert [each.event_type for each in raised.value.log.events] == ["step_created"]


# -- checked before anything is sent -----------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (mapping("run_created", executionContext={"a": {1}}), "eventData.executionContext.a"),
        (mapping("run_created", executionContext={"a": "x" * 2048}), "eventData.executionContext"),
        (mapping("step_created", stepName="\ud800"), "eventData.stepName"),
        (mapping("step_created", input=b"x" * 2000), "eventData.input"),
        (mapping("attr_set", changes=[{"key": "a", "value": "x" * 8192}]), "eventData"),
    ],
)
@pytest.mark.parametrize("switch", ["0", "1"])
async def test_one_bad_event_and_nothing_is_sent(
    bad: dict[str, object], field: str, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKFLOW_BATCH_TRANSITIONS", switch)
    item = parse_event(bad)
    async with stage([], max_batch_bytes=1000 if field == "eventData.input" else 100_000) as it:
        with pytest.raises(InvalidEventError) as raised:
            await it.client.create_batch(RUN, [*steps(2), item, *steps(2, 2)])
        assert (raised.value.field, raised.value.event_index, raised.value.run_id) == (field, 2, RUN)
        assert [receipt.outcome.value for receipt in raised.value.receipts] == ["unsent"] * 5
        with pytest.raises(InvalidEventError) as raised:
            await it.client.create(RUN, item)
        assert (raised.value.field, raised.value.event_index) == (field, 0)
        assert it.server.connections == 0


@pytest.mark.parametrize("thing", [mapping("step_created"), None, "step_created", 5])
async def test_what_is_no_event_is_not_sent(thing: Event) -> None:
    async with stage([]) as it:
        with pytest.raises(InvalidEventError, match="parse_event") as raised:
            await it.client.create_batch(RUN, [*steps(1), thing])
        assert raised.value.event_index == 1
        with pytest.raises(InvalidEventError, match="parse_event"):
            await it.client.create(RUN, thing)
        assert it.server.connections == 0


async def test_a_pair_behind_others_stays_together() -> None:
    events = [*steps(31), *pair()]
    script = [answered(batch_answer(events[:31])), answered(batch_answer(events[31:]))]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, events)
        assert len(result.created) == 33
        assert it.sizes == [31, 2]


@pytest.mark.parametrize(("resolve", "asked"), [(None, "lazy"), ("none", "lazy"), ("all", "resolve")])
async def test_what_a_caller_may_say_beside_a_batch(resolve: Any, asked: str) -> None:
    async with stage([answered(batch_answer(steps(2)))]) as it:
        await it.client.create_batch(RUN, steps(2), request_id="req", resolve_data=resolve)
        metas = [frame.meta for frame in decode_frames(it.server.requests[0].body)]
    assert [(meta["vercelId"], meta["remoteRefBehavior"]) for meta in metas] == [("req", asked)] * 2


async def test_what_is_changed_after_the_call_began_changes_nothing() -> None:
    context = {"a": 1}
    item = event("run_created", executionContext=context)
    async with stage([throttled("1"), answered(single_answer(item))]) as it:
        original = it.clock.sleep

        async def sleep(delay_s: float) -> None:
            context["a"] = 2
            await original(delay_s)

        it.clock.sleep = sleep  # type: ignore[method-assign]
        await it.client.create(RUN, item)
        assert it.server.identical_bodies
        (frame,) = decode_frames(it.server.requests[1].body)
        assert frame.meta["executionContext"] == {"a": 1}
