"""Claims: what is told while one is held, what becomes of one whose holder is gone, and of a holder that
comes back late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.devserver.idempotency import KeyOptions
from tests.devserver.api import RUN, Answer, Api
from tests.devserver.conftest import MakeStore
from tests.devserver.keyed import (
    LOST,
    UNGUARDED,
    Delivery,
    Hold,
    Holders,
    check_executed,
    check_replay,
    check_reused,
    each_route,
    is_in_progress,
    is_replayed,
    prepare,
    retries,
    says,
    single,
)
from tests.support.fake_clock import FakeClock

LEASE_S = 30.0
KEYS = KeyOptions(deadline_s=300.0, lease_s=LEASE_S)
WRITE = UNGUARDED["single"]

Serve = Callable[..., AbstractAsyncContextManager[Api]]


@pytest.fixture
def serve(make_store: MakeStore, clock: FakeClock, session: aiohttp.ClientSession) -> Serve:
    """Starts a server whose holders meet what they are told."""

    @asynccontextmanager
    async def serve(
        *fates: Hold | str, holders: Holders | None = None, protection: Protection = Protection.FENCED
    ) -> AsyncIterator[Api]:
        hidden = Hidden(protection=protection, between=holders or Holders(*fates))
        async with DevServer(make_store(), clock=clock, keys=KEYS, hidden=hidden) as server:
            yield Api(session, server.url)

    return serve


async def lose(api: Api, delivery: Delivery) -> None:
    """Deliver to a holder that goes under: there is no answer."""
    with pytest.raises(aiohttp.ClientConnectionError):
        await delivery.to(api)


# -- while it is held ------------------------------------------------------------------------------


@each_route
async def test_a_request_that_is_under_way_is_not_executed_again(serve: Serve, kind: str) -> None:
    hold, delivery = Hold(), UNGUARDED[kind]
    async with serve(hold) as api:
        await prepare(api)
        first = asyncio.create_task(delivery.to(api))
        await hold.reached.wait()
        for _ in range(3):
            assert is_in_progress(await delivery.to(api))
        assert await retries(api) == 0
        hold.released.set()
        check_executed(await first)
        check_replay(await delivery.to(api), await first)
        assert await retries(api) == 1


async def test_meanwhile_its_key_stands_for_no_other_request(serve: Serve) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        first = asyncio.create_task(WRITE.to(api))
        await hold.reached.wait()
        check_reused(await single("step_retrying", "r", error=b"another").to(api))
        check_reused(await UNGUARDED["batch"].to(api))
        hold.released.set()
        check_executed(await first)
        assert await retries(api) == 1


async def test_it_holds_up_nobody_else(serve: Serve) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        await prepare(api, "other")
        first = asyncio.create_task(WRITE.to(api))
        await hold.reached.wait()
        check_executed(await replace(WRITE, key="another").to(api))
        check_executed(await WRITE.without_key().to(api))
        check_executed(await single("step_retrying", "r", run="other", error=b"devle").to(api))
        assert await retries(api) == 2
        hold.released.set()
        check_executed(await first)
        assert await retries(api) == 3


async def test_a_caller_that_goes_away_changes_nothing(serve: Serve) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        first = asyncio.create_task(WRITE.to(api))
        await hold.reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert is_in_progress(await WRITE.to(api))
        hold.released.set()
        answer = await WRITE.to(api)
        while is_in_progress(answer):
            answer = await WRITE.to(api)
        assert (answer.status, is_replayed(answer)) == (200, True)
        assert await retries(api) == 1


# -- the holder is gone ----------------------------------------------------------------------------


@each_route
async def test_the_claim_of_a_lost_holder_ends_with_its_lease(
    serve: Serve, clock: FakeClock, kind: str
) -> None:
    holders, delivery = Holders(LOST), UNGUARDED[kind]
    async with serve(holders=holders) as api:
        await prepare(api)
        await lose(api, delivery)
        assert is_in_progress(await delivery.to(api))
        clock.advance(LEASE_S - 0.5)
        assert is_in_progress(await delivery.to(api))
        check_reused(await single("step_retrying", "r", error=b"another").to(api))
        assert await retries(api) == 0
        clock.advance(1)
        first = await delivery.to(api)
        check_executed(first)
        check_replay(await delivery.to(api), first)
        assert await retries(api) == 1
    assert [claim[:2] for claim in holders.claims] == [(RUN, "k")] * 2
    assert holders.tokens[0] < holders.tokens[1]


async def test_every_claim_has_a_higher_token(serve: Serve, clock: FakeClock) -> None:
    holders = Holders(LOST, LOST, LOST)
    async with serve(holders=holders) as api:
        await prepare(api)
        for _ in range(3):
            await lose(api, WRITE)
            assert is_in_progress(await WRITE.to(api))
            clock.advance(LEASE_S + 0.5)
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1
    assert all(one < next_one for one, next_one in pairwise(holders.tokens))
    assert len(holders.tokens) == 4


async def test_its_key_stays_with_its_request_behind_the_lease(serve: Serve, clock: FakeClock) -> None:
    async with serve(LOST) as api:
        await prepare(api)
        await lose(api, WRITE)
        clock.advance(LEASE_S + 0.5)
        check_reused(await single("step_retrying", "r", error=b"another").to(api))
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1


async def test_of_many_who_reclaim_one_is_executed(serve: Serve, clock: FakeClock) -> None:
    async with serve(LOST) as api:
        await prepare(api)
        await lose(api, WRITE)
        clock.advance(LEASE_S + 0.5)
        answers = await asyncio.gather(*(WRITE.to(api) for _ in range(8)))
        assert sum(answer.status == 200 and not is_replayed(answer) for answer in answers) == 1
        assert await retries(api) == 1


async def test_a_run_may_be_lost_before_it_was_created(serve: Serve, clock: FakeClock) -> None:
    created = single("run_created", deploymentId="dpl", workflowName="flow", input=b"devlin")
    async with serve(LOST) as api:
        await lose(api, created)
        assert (await api.get(f"/runs/{RUN}/events")).status == 404
        assert is_in_progress(await created.to(api))
        clock.advance(LEASE_S + 0.5)
        check_executed(await created.to(api))
        assert await api.log() == [("run_created", None)]


# -- the holder comes back late --------------------------------------------------------------------


def tells_no_lie(late: Answer, truth: Answer) -> bool:
    """Whether the caller of a holder that was late knows the truth, or that it is still to be asked for."""
    if is_in_progress(late):
        return True
    if late.status == 504:
        assert (late.code, late.headers["Retry-After"]) == ("deadline_exceeded", "1")
        return True
    return says(late) == says(truth)


@each_route
async def test_a_holder_that_lost_its_claim_commits_nothing(
    serve: Serve, clock: FakeClock, kind: str
) -> None:
    hold, delivery = Hold(), UNGUARDED[kind]
    holders = Holders(hold)
    async with serve(holders=holders) as api:
        await prepare(api)
        zombie = asyncio.create_task(delivery.to(api))
        await hold.reached.wait()
        clock.advance(LEASE_S + 0.5)
        first = await delivery.to(api)
        check_executed(first)
        log = await api.log()
        hold.released.set()
        assert tells_no_lie(await zombie, first), await zombie
        assert await api.log() == log
        assert await retries(api) == 1
        check_replay(await delivery.to(api), first)
    assert holders.tokens[0] < holders.tokens[1]


async def test_nor_does_it_while_the_next_one_is_at_work(serve: Serve, clock: FakeClock) -> None:
    late, at_work = Hold(), Hold()
    async with serve(late, at_work) as api:
        await prepare(api)
        zombie = asyncio.create_task(WRITE.to(api))
        await late.reached.wait()
        clock.advance(LEASE_S + 0.5)
        second = asyncio.create_task(WRITE.to(api))
        await at_work.reached.wait()
        late.released.set()
        told = await zombie
        assert await retries(api) == 0
        # It must not have opened the way for a third one, either.
        assert is_in_progress(await WRITE.to(api))
        at_work.released.set()
        check_executed(await second)
        assert tells_no_lie(told, await second), told
        check_replay(await WRITE.to(api), await second)
        assert await retries(api) == 1


async def test_nor_when_the_next_one_was_lost_as_well(serve: Serve, clock: FakeClock) -> None:
    late = Hold()
    async with serve(late, LOST) as api:
        await prepare(api)
        zombie = asyncio.create_task(WRITE.to(api))
        await late.reached.wait()
        clock.advance(LEASE_S + 0.5)
        await lose(api, WRITE)
        late.released.set()
        told = await zombie
        assert await retries(api) == 0
        clock.advance(LEASE_S + 0.5)
        first = await WRITE.to(api)
        check_executed(first)
        assert tells_no_lie(told, first), told
        assert await retries(api) == 1


async def test_a_claim_that_nobody_took_over_is_good_behind_its_lease(serve: Serve, clock: FakeClock) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        slow = asyncio.create_task(WRITE.to(api))
        await hold.reached.wait()
        clock.advance(LEASE_S * 10)
        hold.released.set()
        first = await slow
        if first.status == 200:
            check_replay(await WRITE.to(api), first)
        else:
            assert is_in_progress(first)
            assert await retries(api) == 0
            check_executed(await WRITE.to(api))
        assert await retries(api) == 1


async def test_a_refusal_of_a_holder_that_lost_its_claim_is_not_told(serve: Serve, clock: FakeClock) -> None:
    """What the late one would be refused with is true of its own attempt alone."""
    hold = Hold()
    created = single("step_created", "new", stepName="work", input=b"devli")
    async with serve(hold) as api:
        await prepare(api)
        zombie = asyncio.create_task(created.to(api))
        await hold.reached.wait()
        clock.advance(LEASE_S + 0.5)
        first = await created.to(api)
        check_executed(first)
        hold.released.set()
        # Evaluated by itself it would meet 409: the step is there.
        assert tells_no_lie(await zombie, first), await zombie
        check_replay(await created.to(api), first)
        assert (await api.log()).count(("step_created", "new")) == 1


@each_route
async def test_without_the_fence_the_late_holder_doubles_the_write(
    serve: Serve, clock: FakeClock, kind: str
) -> None:
    """This is what the fence is for: the same schedule without it."""
    hold, delivery = Hold(), UNGUARDED[kind]
    async with serve(hold, protection=Protection.RECORDED) as api:
        await prepare(api)
        zombie = asyncio.create_task(delivery.to(api))
        await hold.reached.wait()
        clock.advance(LEASE_S + 0.5)
        check_executed(await delivery.to(api))
        hold.released.set()
        assert (await zombie).status == 200
        assert await retries(api) == 2
        assert is_replayed(await delivery.to(api))


async def test_without_any_protection_every_delivery_is_a_write(serve: Serve) -> None:
    async with serve(protection=Protection.NONE) as api:
        await prepare(api)
        for kind in UNGUARDED.values():
            for _ in range(2):
                check_executed(await kind.to(api))
        assert await retries(api) == 6
