"""A server that lost a key's reservation answers 422: the first failure is what the caller gets."""

from __future__ import annotations

import asyncio

import pytest

from eventclient import Event, EventClientError, RejectedError, ThrottleError, TransportError
from tests.support.scripted_server import Reply

from .answers import answered, batch_answer, refusal
from .keyed import REUSE, deadline, in_progress, reuse, supporting, told
from .samples import RUN, event, pair, steps
from .stage import Stage, stage
from .write_rows import RESET, throttled
from .writing import give


def reuse_in(error: BaseException) -> RejectedError:
    """The 422 that is the context of `error`."""
    context = error.__context__
    assert type(context) is RejectedError
    assert (context.status, context.code) == (422, REUSE)
    return context


async def written(it: Stage, events: list[Event], *, create: bool) -> None:
    if create:
        await it.client.create(RUN, events[0])
    else:
        await it.client.create_batch(RUN, events)


@pytest.mark.parametrize(
    ("failures", "error", "status", "outcome"),
    [
        ([supporting(Reply(status=503))], TransportError, 503, "unknown"),
        ([supporting(refusal(500, "boom"))], TransportError, 500, "unknown"),
        ([RESET], TransportError, None, "unknown"),
        ([deadline("1")], TransportError, 504, "unknown"),
        ([in_progress("1")], TransportError, 409, "unknown"),
        ([throttled("1")], ThrottleError, 429, "unsent"),
        # The first counts that left the end open, or the first of all: a 429 wrote nothing.
        ([throttled("1"), RESET], TransportError, None, "unknown"),
        ([RESET, throttled("1")], TransportError, None, "unknown"),
        ([supporting(Reply(status=502)), deadline("1"), throttled("1")], TransportError, 502, "unknown"),
    ],
)
@pytest.mark.parametrize("name", ["batch", "single", "create"])
async def test_the_first_failure_is_kept(
    failures: list[Reply], error: type[EventClientError], status: int | None, outcome: str, name: str
) -> None:
    events = steps(2 if name == "batch" else 1)
    async with stage([*failures, reuse()]) as it:
        with pytest.raises(error) as raised:
            await written(it, events, create=name == "create")
        assert it.server.unscripted == 0
    assert type(raised.value) is error
    assert raised.value.status == status  # type: ignore[attr-defined]
    reuse_in(raised.value)
    for receipt in raised.value.receipts:
        assert (receipt.outcome.value, receipt.status) == (outcome, status)
        assert [attempt.status for attempt in receipt.attempts][-1] == 422
        assert len(receipt.attempts) == len(failures) + 1
        assert receipt.attempts[-1].cause == "refused"
    if error is TransportError:
        assert getattr(raised.value, "ambiguous", None) is True
    else:
        assert ("Nothing was written" in str(raised.value)) is (outcome == "unsent")


async def test_what_was_refused_keeps_its_code() -> None:
    async with stage([supporting(refusal(500, "boom")), reuse()]) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, pair())
    assert raised.value.code == "boom"
    assert {receipt.code for receipt in raised.value.receipts} == {"boom"}


@pytest.mark.parametrize("name", ["batch", "create"])
async def test_on_the_first_attempt_it_is_a_refusal_like_any(name: str) -> None:
    async with stage([reuse()]) as it:
        with pytest.raises(RejectedError) as raised:
            await written(it, steps(1 if name == "create" else 2), create=name == "create")
        assert len(it.posts) == 1
    assert (type(raised.value), raised.value.status, raised.value.code) == (RejectedError, 422, REUSE)
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"rejected"}


async def test_another_422_stands_also_behind_a_failure() -> None:
    async with stage([throttled("1"), told(422, "validation")]) as it:
        with pytest.raises(RejectedError) as raised:
            await it.client.create(RUN, event("step_created"))
    assert (raised.value.status, raised.value.code) == (422, "validation")
    assert raised.value.receipts[0].outcome == "rejected"


async def _inside_a_handler(it: Stage, concurrency: int) -> EventClientError:
    """What a caller gets who writes while handling an error of its own."""
    try:
        raise KeyError("the caller's own")
    except KeyError:
        with pytest.raises(EventClientError) as raised:
            await it.client.create_batch(RUN, steps(2), concurrency=concurrency)
        return raised.value


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_the_context_is_kept_inside_of_a_handler(concurrency: int) -> None:
    def script(_: object) -> Reply:
        return RESET if len(it.posts) <= concurrency else reuse()

    async with stage(script, max_batch_events=3 - concurrency) as it:
        error = await _inside_a_handler(it, concurrency)
    context = reuse_in(error)
    assert isinstance(context.__context__, KeyError)


async def test_a_writer_hands_it_on() -> None:
    async with stage([RESET, reuse()]) as it:
        ends = await asyncio.gather(*give(it.client.writer(), steps(2)), return_exceptions=True)
    for end in ends:
        assert isinstance(end, TransportError)
        reuse_in(end)


async def test_the_next_write_goes_under_a_key_of_its_own() -> None:
    async with stage([RESET, reuse(), answered(batch_answer(steps(2)))]) as it:
        with pytest.raises(TransportError):
            await it.client.create_batch(RUN, steps(2))
        result = await it.client.create_batch(RUN, steps(2))
        assert len(result.created) == 2
        keys = [request.headers["Idempotency-Key"] for request in it.posts]
        assert keys[0] == keys[1] != keys[2]
