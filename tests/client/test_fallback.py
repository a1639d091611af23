"""From the batch route to single posts: when, what is remembered, and what is said."""

from __future__ import annotations

import logging

import pytest

from eventclient import ConfigurationError, ProtocolError, ThrottleError, TransportError
from eventclient.model.events import Event
from eventclient.policy.fallback import FallbackLatch
from tests.support.scripted_server import Fault, Reply, SeenRequest

from .answers import answered, batch_answer, refusal, single_answer
from .samples import OTHER_RUN, RUN, event, pair, steps
from .stage import Honest, stage
from .write_rows import RESET, throttled

CODE = "batch-requires-slot-identity"
LATCHING = [(404, None), (405, None), (400, CODE)]
EVENTS = steps(2)


def no_batches(status: int, code: str | None = None) -> Honest:
    def before(request: SeenRequest) -> Reply | None:
        return refusal(status, code) if request.path.endswith("/batch") else None

    return Honest(before)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(("status", "code"), LATCHING)
async def test_a_refused_route_is_remembered_with_one_warning(
    status: int, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    server = no_batches(status, code)
    async with stage(server) as it:
        first = await it.client.create_batch(RUN, steps(3))
        second = await it.client.create_batch(RUN, steps(2, 3))
        assert it.paths == ["batch"] + ["step_created"] * 5
    assert [receipt.via for receipt in [*first, *second]] == ["single"] * 5
    assert (first.ledger.fallbacks, first.ledger.requests) == (1, 4)
    assert (second.ledger.fallbacks, second.ledger.requests) == (0, 2)
    assert server.log == [(RUN, f"step_{number}") for number in range(5)]
    (warning,) = warnings(caplog)
    assert str(status) in warning
    assert RUN in warning


@pytest.mark.parametrize("code", [None, "validation-error"])
async def test_any_other_400_is_not_remembered(code: str | None, caplog: pytest.LogCaptureFixture) -> None:
    async with stage(no_batches(400, code)) as it:
        for _ in range(2):
            result = await it.client.create_batch(RUN, EVENTS)
            assert result.ledger.fallbacks == 1
        assert it.paths == ["batch", "step_created", "step_created"] * 2
    assert warnings(caplog) == []


async def test_the_memory_is_of_one_run() -> None:
    async with stage(no_batches(404)) as it:
        for run_id in (RUN, OTHER_RUN, RUN):
            await it.client.create_batch(run_id, EVENTS)
        assert it.paths == ["batch", "step_created", "step_created"] * 2 + ["step_created"] * 2


async def test_the_memory_expires() -> None:
    async with stage(no_batches(404)) as it:
        await it.client.create_batch(RUN, EVENTS)
        it.clock.advance(FallbackLatch.LIFETIME_S - 1)
        await it.client.create_batch(RUN, EVENTS)
        assert it.paths.count("batch") == 1
        it.clock.advance(1)
        await it.client.create_batch(RUN, EVENTS)
        assert it.paths.count("batch") == 2


async def test_the_rest_of_the_call_goes_as_single_posts_too() -> None:
    async with stage(no_batches(404), max_batch_events=2) as it:
        result = await it.client.create_batch(RUN, steps(5))
        assert it.paths == ["batch"] + ["step_created"] * 5
        assert result.ledger.fallbacks == 1


async def test_requests_that_fly_together_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(no_batches(404), max_batch_events=2) as it:
        result = await it.client.create_batch(RUN, steps(8), concurrency=4)
        assert [receipt.outcome.value for receipt in result] == ["created"] * 8
        assert it.paths.count("batch") == 4
    assert len(warnings(caplog)) == 1


async def test_a_run_that_is_not_there_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    async with stage([refusal(404)], repeat_last=True) as it:
        for _ in range(2):
            result = await it.client.create_batch(RUN, EVENTS)
            assert [receipt.outcome.value for receipt in result] == ["rejected"] * 2
        assert it.paths == ["batch", "step_created", "step_created"] * 2
    assert warnings(caplog) == []


@pytest.mark.parametrize("status", [409, 410, 425, 400])
async def test_a_refusal_on_its_own_account_settles_the_question(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    script = [refusal(404), refusal(status), answered(single_answer(EVENTS[1]))]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, EVENTS)
        assert [receipt.status for receipt in result] == [status, 200]
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [(RESET, TransportError), (throttled("31"), ThrottleError), (Reply(status=503), TransportError)],
)
async def test_nothing_is_remembered_before_a_single_post_is_settled(
    reply: Reply, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    events = [event("step_retrying", "a"), event("step_retrying", "b")]
    again = answered(batch_answer(events))
    async with stage([refusal(404), reply, again]) as it:
        with pytest.raises(error) as raised:
            await it.client.create_batch(RUN, events)
        assert getattr(raised.value, "event_index", None) == 0
        await it.client.create_batch(RUN, events)
        assert [request.path.rpartition("/")[2] for request in it.posts] == [
            "batch",
            "step_retrying",
            "batch",
        ]
        assert it.gets == []
    assert not any("batch route" in warning for warning in warnings(caplog))


async def test_the_order_is_that_of_the_call() -> None:
    server = no_batches(404)
    events = [*steps(2), *pair("p"), event("hook_created", "h"), *steps(2, 2), event("run_completed")]
    async with stage(server) as it:
        await it.client.create_batch(RUN, events)
    assert [key for _, key in server.log] == [each.correlation_id for each in events]


# -- what never falls back ---------------------------------------------------------------------


@pytest.mark.parametrize("events", [steps(2), pair()], ids=["convergent", "pair"])
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (RESET, TransportError),
        (Reply(status=503), TransportError),
        (Reply(), ProtocolError),
        (Reply(headers=[("Content-Length", "5"), ("Content-Length", "6")], close=True), TransportError),
        (Reply(headers={"X-Long": "x" * 70_000}, close=True), TransportError),
        (Reply(headers={"X-Nul": "a\x00b"}, close=True), TransportError),
        (Reply(status=404, body=b"no route", fault=Fault.CLOSE_MID_BODY, fault_after=2), TransportError),
        (Reply(status=301, headers={"Location": "https://other.test/"}), ConfigurationError),
    ],
    ids=["reset", "503", "empty", "two lengths", "long header", "nul in a header", "cut 404", "redirect"],
)
async def test_what_is_no_answer_of_the_route_is_no_reason(
    reply: Reply, error: type[Exception], events: list[Event]
) -> None:
    async with stage([reply], repeat_last=True) as it:
        with pytest.raises(error):
            await it.client.create_batch(RUN, events)
        assert {request.path.rpartition("/")[2] for request in it.posts} == {"batch"}


@pytest.mark.parametrize(("status", "code"), LATCHING)
async def test_nothing_falls_back_behind_an_attempt_that_may_have_landed(
    status: int, code: str | None
) -> None:
    async with stage([RESET, refusal(status, code)]) as it:
        with pytest.raises(Exception, match="told so") as raised:
            await it.client.create_batch(RUN, EVENTS)
        assert it.paths == ["batch"] * 2
    receipts = raised.value.receipts  # type: ignore[attr-defined]
    assert [receipt.outcome.value for receipt in receipts] == ["unknown"] * 2


async def test_a_throttled_route_may_still_be_refused() -> None:
    async with stage(
        [throttled("1"), refusal(404), *(answered(single_answer(each)) for each in EVENTS)]
    ) as it:
        await it.client.create_batch(RUN, EVENTS)
        assert it.paths == ["batch", "batch", "step_created", "step_created"]


async def test_the_receipts_tell_of_the_batch_that_was_refused_too() -> None:
    script = [refusal(404), *(answered(single_answer(each)) for each in EVENTS)]
    async with stage(script) as it:
        result = await it.client.create_batch(RUN, EVENTS)
    told = [[(attempt.number, attempt.status) for attempt in receipt.attempts] for receipt in result]
    assert told == [[(1, 404), (2, 200)]] * len(EVENTS)
