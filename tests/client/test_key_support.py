"""Whether a server keeps keys is learned from its answers; only such a server gets everything again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from eventclient import (
    NO_RETRY,
    EventClientError,
    FirewallChallengeError,
    RetryOptions,
    TransportError,
)
from eventclient.wire.spec import HEADER_KEY_SUPPORT
from tests.support.scripted_server import Fault, Reply

from .answers import answered, log_of, refusal, single_answer
from .keyed import supporting
from .samples import RUN, event, pair, steps
from .stage import Stage, stage
from .write_rows import LOST, RESET, SUBJECTS, Subject, challenged

UNSAFE = {name: subject for name, subject in SUBJECTS.items() if not subject.converges}
each_unsafe = pytest.mark.parametrize("subject", UNSAFE.values(), ids=UNSAFE)
START = event("step_started")
TAKEN = answered(single_answer(event("step_created")))
TAKEN_START = answered(single_answer(START))
LOG = log_of(steps(1))


async def lost_start(it: Stage) -> bool:
    """Whether a start whose first answer is lost was sent again."""
    before = len(it.posts)
    try:
        await it.client.create(RUN, START)
    except TransportError:
        assert len(it.posts) == before + 1
        return False
    assert len(it.posts) == before + 2
    return True


async def created(it: Stage) -> None:
    """A write that may be refused."""
    with suppress(EventClientError):
        await it.client.create(RUN, event("step_created"))


def script(*first: Reply) -> Sequence[Reply]:
    return [*first, RESET, answered(single_answer(START))]


# -- every request may be sent again -----------------------------------------------------------


@each_unsafe
@pytest.mark.parametrize("failure", LOST)
async def test_a_server_that_keeps_keys_gets_everything_again(failure: str, subject: Subject) -> None:
    reply, _ = LOST[failure]
    # Whether the failing answer has the advert or not: the write before it had.
    async with stage([supporting(TAKEN), supporting(reply), reply, supporting(subject.success)]) as it:
        await it.client.create(RUN, event("step_created"))
        receipts = await subject.write(it.client)
        assert it.gets == []
        assert {receipt.outcome.value for receipt in receipts} == {"created"}
        assert it.clock.sleeps == pytest.approx([0.1, 0.2])
        assert len({request.body for request in it.posts[1:]}) == 1


async def test_twice_at_most() -> None:
    async with stage([supporting(Reply(status=503))], repeat_last=True) as it:
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, pair())
        assert (len(it.posts), it.clock.sleeps) == (3, [0.1, 0.2])
    assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}


# -- what is learned from an answer ------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 404, 409, 410, 500, 503])
async def test_any_answer_with_the_advert_tells_of_keys(status: int) -> None:
    reply = supporting(TAKEN if status == 200 else refusal(status))
    retry = RetryOptions(transient_retries=1)
    # A failure is sent once again, with the advert as well.
    again = [reply] if status >= 500 else []
    async with stage(script(reply, *again), retry=retry) as it:
        await created(it)
        assert await lost_start(it)
        assert it.gets == []


async def test_a_read_tells_of_keys_too() -> None:
    async with stage(script(supporting(LOG))) as it:
        await it.client.read_log(RUN)
        assert await lost_start(it)
        assert len(it.gets) == 1


@pytest.mark.parametrize("reply", [TAKEN, refusal(409)], ids=["200", "409"])
async def test_a_word_of_the_server_without_it_tells_of_none(reply: Reply) -> None:
    async with stage(script(reply)) as it:
        await created(it)
        assert not await lost_start(it)
        assert it.gets == []


@pytest.mark.parametrize("status", [400, 404, 410, 413])
async def test_other_answers_without_it_tell_nothing(status: int) -> None:
    async with stage([supporting(TAKEN), refusal(status), *script()]) as it:
        await it.client.create(RUN, event("step_created"))
        with pytest.raises(Exception, match=str(status)):
            await it.client.create(RUN, event("step_completed"))
        assert await lost_start(it)
        assert it.gets == []


@pytest.mark.parametrize("foreign", [challenged(200), challenged(409)], ids=["200", "409"])
async def test_a_firewall_tells_nothing(foreign: Reply) -> None:
    async with stage([supporting(TAKEN), foreign, *script()]) as it:
        await it.client.create(RUN, event("step_created"))
        with pytest.raises(FirewallChallengeError):
            await it.client.create(RUN, event("step_created"))
        assert await lost_start(it)


async def test_a_page_in_place_of_an_answer_tells_nothing() -> None:
    page = Reply(headers={"Content-Type": "text/html"}, body=b"<title>Login")
    async with stage([supporting(TAKEN), page, TAKEN_START]) as it:
        await it.client.create(RUN, event("step_created"))
        await it.client.create(RUN, START)
        assert (len(it.posts), it.gets) == (3, [])


@pytest.mark.parametrize(("first", "second", "sent"), [(True, False, False), (False, True, True)])
async def test_the_latest_word_counts(first: bool, second: bool, sent: bool) -> None:
    replies = [supporting(TAKEN) if advert else TAKEN for advert in (first, second)]
    async with stage(script(*replies)) as it:
        for _ in replies:
            await it.client.create(RUN, event("step_created"))
        assert await lost_start(it) is sent


@pytest.mark.parametrize(
    ("value", "sent"), [("true", True), ("TRUE", True), (" true ", True), ("false", False), ("1", False)]
)
async def test_the_advert_says_true(value: str, sent: bool) -> None:
    reply = Reply(headers=[*TAKEN.headers.items(), (HEADER_KEY_SUPPORT, value)], body=TAKEN.body)  # type: ignore[union-attr]
    async with stage(script(reply)) as it:
        await it.client.create(RUN, event("step_created"))
        assert await lost_start(it) is sent


async def test_the_failing_answer_itself_may_tell() -> None:
    async with stage([supporting(Reply(status=500)), answered(single_answer(START))]) as it:
        assert await lost_start(it)
        assert it.gets == []


async def test_an_answer_that_breaks_off_may_tell() -> None:
    whole = supporting(answered(single_answer(START)))
    cut = Reply(headers=whole.headers, body=whole.body, fault=Fault.CLOSE_MID_BODY, fault_after=9)
    async with stage([cut, answered(single_answer(START))]) as it:
        assert await lost_start(it)


# -- where nothing is known --------------------------------------------------------------------


async def test_where_nothing_is_known_nothing_is_sent_that_may_not_come_twice() -> None:
    async with stage([RESET], repeat_last=True) as it:
        for _ in range(3):
            assert not await lost_start(it)
        assert (it.gets, it.clock.sleeps) == ([], [])


@pytest.mark.parametrize("retry", [NO_RETRY, RetryOptions(transient_retries=0)])
async def test_nothing_is_sent_again_where_retries_are_off(retry: RetryOptions) -> None:
    async with stage([supporting(TAKEN), RESET], repeat_last=True, retry=retry) as it:
        await it.client.create(RUN, event("step_created"))
        assert not await lost_start(it)


async def test_nothing_is_sent_again_when_the_fast_budget_is_spent() -> None:
    retry = RetryOptions(fast_budget_s=0.05)
    async with stage([supporting(TAKEN), RESET], repeat_last=True, retry=retry) as it:
        await it.client.create(RUN, event("step_created"))
        assert not await lost_start(it)
