"""What is still being executed is asked for again under its key, at the pace the server names."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from eventclient import (
    NO_RETRY,
    EventClientError,
    FirewallChallengeError,
    RetryOptions,
    ThrottleError,
    TransportError,
)
from eventclient.wire.codec import encode_value
from eventclient.wire.spec import HEADER_ERROR_TYPE
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Fault, Reply

from .answers import item_map
from .keyed import DEADLINE, IN_PROGRESS, deadline, in_progress, supporting, told
from .samples import NOW, RUN, event, pair, steps
from .stage import stage
from .write_rows import RESET, SUBJECTS, Subject, throttled

each_subject = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
each_code = pytest.mark.parametrize(
    ("status", "code"), [(504, DEADLINE), (409, IN_PROGRESS)], ids=["504", "409"]
)
STEPS = SUBJECTS["batch of creates"]
PAIR = SUBJECTS["batch with a pair"]


@each_subject
@each_code
async def test_it_is_collected_whatever_the_events(status: int, code: str, subject: Subject) -> None:
    pending = told(status, code, "3")
    async with stage([pending] * 4 + [supporting(subject.success)]) as it:
        receipts = await subject.write(it.client)
        assert {receipt.outcome.value for receipt in receipts} == {"created"}
        assert it.clock.sleeps == [3.0] * 4
        assert [attempt.cause for attempt in receipts[0].attempts] == ["pending"] * 4 + ["ok"]
        assert [attempt.status for attempt in receipts[0].attempts] == [status] * 4 + [200]
        assert it.server.identical_bodies
        assert it.gets == []


@each_code
@pytest.mark.parametrize("field", ["code", "error_type", HEADER_ERROR_TYPE])
async def test_where_the_code_may_stand(status: int, code: str, field: str) -> None:
    async with stage([told(status, code, "1", field=field), PAIR.success]) as it:
        await PAIR.write(it.client)
        assert it.clock.sleeps == [1.0]


@each_code
async def test_the_body_goes_before_the_header(status: int, code: str) -> None:
    reply = told(status, "another", "1")
    headers = [*reply.headers, (HEADER_ERROR_TYPE, code)]
    other = Reply(status=status, headers=headers, body=reply.body)
    async with stage([other], repeat_last=True) as it:
        with pytest.raises(EventClientError, match=str(status)):
            await it.client.create(RUN, event("step_created"))
        assert it.clock.sleeps == ([0.1, 0.2] if status == 504 else [])


@pytest.mark.parametrize(
    ("pace", "wait_s"),
    [
        ("1", 1.0),
        ("1.2", 2.0),
        ("600", 600.0),
        (format_datetime(NOW + timedelta(seconds=7), usegmt=True), 7.0),
        ("0", 0.1),
        ("-3", 0.1),
        (format_datetime(NOW - timedelta(seconds=7), usegmt=True), 0.1),
    ],
)
@each_code
async def test_the_pace(status: int, code: str, pace: str, wait_s: float) -> None:
    async with stage([told(status, code, pace), PAIR.success]) as it:
        await PAIR.write(it.client)
        assert it.clock.sleeps == [wait_s]


async def test_at_pace_zero_the_wait_doubles_to_a_limit() -> None:
    async with stage([deadline("0")] * 8 + [PAIR.success]) as it:
        await PAIR.write(it.client)
        assert it.clock.sleeps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


async def test_it_is_jittered_and_never_shorter_than_asked() -> None:
    async with stage([deadline("2"), deadline("0"), PAIR.success], clock=FakeClock(jitter=1.0)) as it:
        await PAIR.write(it.client)
        assert it.clock.sleeps == pytest.approx([2.2, 0.3])


# -- both gates --------------------------------------------------------------------------------


async def _gives_up(reply: Reply, subject: Subject, *, times: int = 1, **options: Any) -> TransportError:
    """What a write raises that is sent once, or `times`, and is then unknown."""
    async with stage([reply], repeat_last=True, **options) as it:
        with pytest.raises(TransportError) as raised:
            await subject.write(it.client)
        assert len(it.posts) == times
        assert it.gets == []
    assert raised.value.ambiguous
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}
    assert {receipt.persisted for receipt in raised.value.receipts} == {"unknown"}
    return raised.value


@each_subject
@each_code
@pytest.mark.parametrize("pace", [(), ("soon",)], ids=["absent", "unreadable"])
async def test_without_a_pace_it_is_not_sent_again(
    status: int, code: str, pace: tuple[str, ...], subject: Subject
) -> None:
    error = await _gives_up(told(status, code, *pace), subject)
    assert (error.status, error.code) == (status, code)
    assert "no pace" in error.message


@pytest.mark.parametrize("code", [None, "timeout", IN_PROGRESS, DEADLINE.upper()])
async def test_another_504_is_as_ambiguous_as_any(code: str | None) -> None:
    reply = told(504, code, "7", advert=False)
    async with stage([reply, STEPS.success]) as it:
        await STEPS.write(it.client)
        assert it.clock.sleeps == [0.1]
    async with stage([reply], repeat_last=True) as it:
        with pytest.raises(TransportError):
            await PAIR.write(it.client)
        assert len(it.posts) == 1


@pytest.mark.parametrize("code", [None, "conflict", DEADLINE])
async def test_another_409_is_a_refusal(code: str | None) -> None:
    async with stage([told(409, code, "7")]) as it:
        receipt = (await it.client.create_batch(RUN, [event("step_created")]))[0]
        assert (receipt.outcome.value, it.clock.sleeps) == ("conflict", [])


@pytest.mark.parametrize("status", [500, 503, 408, 425, 429])
async def test_the_code_alone_says_nothing_on_another_status(status: int) -> None:
    async with stage([told(status, DEADLINE, "1"), told(404, None)]) as it:
        with pytest.raises(EventClientError):
            await it.client.create(RUN, event("step_retrying"))
        assert it.clock.sleeps == {429: [1.0], 500: [0.1], 503: [0.1]}.get(status, [])


async def test_an_item_of_a_batch_is_never_waited_for() -> None:
    events = steps(2)
    item = item_map(events[0], 409) | {"error": IN_PROGRESS}
    body = encode_value({"results": [item, item_map(events[1], slot=2)]})
    async with stage([Reply(headers={"Retry-After": "1"}, body=body)]) as it:
        result = await it.client.create_batch(RUN, events)
        assert [receipt.outcome.value for receipt in result] == ["conflict", "created"]
        assert it.clock.sleeps == []


async def test_a_challenge_wins_over_the_code() -> None:
    reply = deadline("1")
    headers = [*reply.headers, ("x-vercel-mitigated", "challenge")]
    async with stage([Reply(status=504, headers=headers, body=reply.body)]) as it:
        with pytest.raises(FirewallChallengeError):
            await PAIR.write(it.client)
        assert len(it.posts) == 1


async def test_a_cut_answer_has_no_code() -> None:
    reply = deadline("1")
    cut = Reply(status=504, headers=reply.headers, body=reply.body, fault=Fault.CLOSE_MID_BODY, fault_after=9)
    async with stage([cut, PAIR.success]) as it:
        await PAIR.write(it.client)
        # Its headers are there, so keys are kept; what it says is not, so it is no more than a lost answer.
        assert (len(it.posts), it.clock.sleeps) == (2, [0.1])


# -- options and budgets -----------------------------------------------------------------------


@each_subject
@each_code
async def test_the_class_can_be_switched_off_also_where_others_would_resend(
    status: int, code: str, subject: Subject
) -> None:
    retry = RetryOptions(collect=False, transient_retries=9)
    error = await _gives_up(told(status, code, "1"), subject, retry=retry)
    assert "not collected" in error.message


@each_code
async def test_no_retry_switches_it_off(status: int, code: str) -> None:
    await _gives_up(told(status, code, "1"), STEPS, retry=NO_RETRY)


async def test_it_is_collected_where_other_retries_are_off() -> None:
    retry = RetryOptions(transient_retries=0, throttle_budget_s=0.0)
    async with stage([deadline("5")] * 9 + [PAIR.success], retry=retry) as it:
        await PAIR.write(it.client)
        assert it.clock.sleeps == [5.0] * 9


@pytest.mark.parametrize(("pace", "count"), [("400", 3), ("1200", 1), ("1201", 0), ("7", 171)])
async def test_its_budget_is_1200_seconds(pace: str, count: int) -> None:
    error = await _gives_up(in_progress(pace), PAIR, times=count + 1)
    assert "does not cover the wait" in error.message


async def test_jitter_is_paid_from_the_budget() -> None:
    clock = FakeClock(jitter=1.0)
    await _gives_up(deadline("400"), PAIR, times=3, clock=clock)
    assert clock.sleeps == pytest.approx([400.25, 400.25])


async def test_attempts_are_paid_from_the_budget() -> None:
    clock = FakeClock()

    def slow(_: object) -> Reply:
        clock.advance(10.0)
        return deadline("1")

    retry = RetryOptions(collect_budget_s=32.0)
    async with stage(slow, clock=clock, retry=retry) as it:
        with pytest.raises(TransportError):
            await PAIR.write(it.client)
        # Twice 10 s and the wait behind; the third attempt leaves nothing.
        assert (len(it.posts), clock.sleeps) == (3, [1.0, 1.0])


async def test_each_class_pays_from_its_own_budget() -> None:
    script = [RESET, throttled("30"), deadline("600"), supporting(RESET), in_progress("600"), STEPS.success]
    async with stage(script) as it:
        receipts = await STEPS.write(it.client)
        assert it.clock.sleeps == [0.1, 30.0, 600.0, 0.2, 600.0]
        assert {receipt.outcome.value for receipt in receipts} == {"created"}
        assert [len(receipt.attempts) for receipt in receipts] == [6] * 3


@pytest.mark.parametrize(
    ("last", "error"),
    [(throttled("1"), ThrottleError), (RESET, TransportError), (deadline("1"), TransportError)],
)
async def test_no_budget_is_ever_refilled(last: Reply, error: type[EventClientError]) -> None:
    spent = [throttled("30"), supporting(RESET), RESET, deadline("1200")]
    async with stage([*spent, last]) as it:
        with pytest.raises(error) as raised:
            await STEPS.write(it.client)
        assert it.clock.sleeps == [30.0, 0.1, 0.2, 1200.0]
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}


async def test_a_slow_failure_leaves_nothing_of_the_fast_budget() -> None:
    clock = FakeClock()

    def slow(request: object) -> Reply:
        clock.advance(40.0)
        return RESET

    async with stage(slow, clock=clock) as it:
        with pytest.raises(TransportError, match="does not cover the wait"):
            await STEPS.write(it.client)
        assert (len(it.posts), clock.sleeps) == (2, [0.1])


# -- what the end means ------------------------------------------------------------------------


@pytest.mark.parametrize("events", [steps(2), pair(), steps(1)], ids=["batch", "pair", "single"])
@pytest.mark.parametrize(
    ("reply", "outcome"),
    [(told(409, "conflict"), "conflict"), (told(410, None), "rejected"), (told(413, None), "unknown")],
)
async def test_the_collected_answer_settles_it(reply: Reply, outcome: str, events: list[Any]) -> None:
    async with stage([deadline("1"), reply]) as it:
        try:
            receipts = tuple(await it.client.create_batch(RUN, events))
        except EventClientError as error:
            receipts = error.receipts
        assert {receipt.outcome.value for receipt in receipts} == {outcome}
        assert it.gets == []
