"""Many at a time, and what the client says in the end."""

from __future__ import annotations

import asyncio

import pytest

from eventclient.client.client import EventClient
from eventclient.client.options import ClientOptions
from eventclient.client.transport import Answer, Loss, Request
from eventclient.drill.course import CURRENT
from eventclient.drill.performing import in_parallel, perform
from eventclient.model.outcomes import Outcome
from tests.support.fake_clock import FakeClock

from .rows import answer, course


async def test_so_many_at_once_and_every_one() -> None:
    under_way, most, done = 0, 0, []

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(item)

    await in_parallel(3, range(10), work)
    assert sorted(done) == list(range(10))
    assert most == 3
    await in_parallel(3, [], work)
    assert len(done) == 10


async def test_the_first_failure_ends_it() -> None:
    ended = []

    async def work(item: int) -> None:
        if item == 1:
            raise ValueError("one")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="one"):
        await in_parallel(2, range(10), work)
    assert ended == [0]


class Deaf:
    """A transport that meets the same each time."""

    def __init__(self, reply: Answer | Loss) -> None:
        self.reply = reply
        self.current: list[object] = []

    async def send(self, request: Request) -> Answer | Loss:
        self.current.append(CURRENT.get())
        return self.reply

    async def aclose(self) -> None:
        pass


SINGLE, BATCH = "step_retrying", "batch of 3 step_retrying"
UNSENT = Loss(sent=False, cause="nobody there")
LOST = Loss(sent=True, cause="gone")


@pytest.mark.parametrize(
    ("kind", "reply", "outcomes"),
    [
        (SINGLE, UNSENT, (Outcome.UNSENT,)),
        (SINGLE, LOST, (Outcome.UNKNOWN,)),
        (SINGLE, answer(409), (Outcome.CONFLICT,)),
        (SINGLE, answer(403), (Outcome.REJECTED,)),
        (BATCH, UNSENT, (Outcome.UNSENT,) * 3),
        (BATCH, LOST, (Outcome.UNKNOWN,) * 3),
        (BATCH, answer(403), (Outcome.REJECTED,) * 3),
    ],
)
async def test_what_the_client_says_is_noted_for_every_event(
    kind: str, reply: Answer | Loss, outcomes: tuple[Outcome, ...]
) -> None:
    made = course(kind)
    transport = Deaf(reply)
    async with EventClient.over(transport, options=ClientOptions(clock=FakeClock())) as client:
        await perform(client, made)
    assert made.outcomes == outcomes
    assert made.wake.is_set()
    assert transport.current[0] is made
    assert CURRENT.get() is None
