"""Keys outlive the server that took them, and servers that share a store share its keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
import pytest

from eventclient.devserver import app
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.devserver.idempotency import KeyOptions
from tests.devserver.api import FRAMES, Api, event
from tests.devserver.conftest import MakeStore
from tests.devserver.keyed import (
    LOST,
    UNGUARDED,
    Hold,
    Holders,
    batch,
    check_executed,
    check_one_truth,
    check_replay,
    check_reused,
    collect,
    is_in_progress,
    is_replayed,
    prepare,
    retries,
    single,
)
from tests.support.fake_clock import FakeClock

LEASE_S = 30.0
each_route = pytest.mark.parametrize(
    ("make_shared_store", "kind"),
    [("file", "single"), ("postgres", "batch"), ("postgres", "flat")],
    indirect=["make_shared_store"],
)
WRITE = UNGUARDED["single"]

Serve = Callable[..., AbstractAsyncContextManager[Api]]


@pytest.fixture
def serve(make_shared_store: MakeStore, clock: FakeClock, session: aiohttp.ClientSession) -> Serve:
    """Starts servers over one store."""

    @asynccontextmanager
    async def serve(
        holders: Holders | None = None,
        *,
        deadline_s: float = 300.0,
        protection: Protection = Protection.FENCED,
    ) -> AsyncIterator[Api]:
        keys = KeyOptions(deadline_s=deadline_s, lease_s=LEASE_S)
        hidden = Hidden(protection=protection, between=holders or Holders())
        async with DevServer(make_shared_store(), clock=clock, keys=keys, hidden=hidden) as server:
            yield Api(session, server.url)

    return serve


# -- one after the other ---------------------------------------------------------------------------


async def test_a_server_answers_for_the_one_before_it(serve: Serve) -> None:
    deliveries = {
        "start": single("run_started", key="start", headers=FRAMES),
        "refused": single("step_created", "r", key="refused", stepName="work"),
        "batch": batch(
            event("step_created", "s", stepName="work", input=b"devli"),
            event("wait_completed", "w"),
            key="batch",
        ),
        "flat": UNGUARDED["flat"],
    }
    async with serve() as api:
        await prepare(api)
        answers = {name: await delivery.to(api) for name, delivery in deliveries.items()}
        log = await api.log()
    async with serve() as api:
        for name, delivery in deliveries.items():
            check_replay(await delivery.to(api), answers[name])
        check_reused(await WRITE.to(api))
        assert await api.log() == log


async def test_a_claim_outlives_the_server(serve: Serve, clock: FakeClock) -> None:
    lost, next_ones = Holders(LOST), Holders()
    async with serve(lost) as api:
        await prepare(api)
        with pytest.raises(aiohttp.ClientConnectionError):
            await WRITE.to(api)
    async with serve(next_ones) as api:
        assert is_in_progress(await WRITE.to(api))
        clock.advance(LEASE_S + 0.5)
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1
    assert lost.tokens[0] < next_ones.tokens[0]


async def test_a_server_lets_what_is_under_way_finish(serve: Serve) -> None:
    hold = Hold()
    async with serve(Holders(hold), deadline_s=0.02) as api:
        await prepare(api)
        assert (await WRITE.to(api)).status == 504
        await hold.reached.wait()
        # It is told to end before the holder goes on.
        asyncio.get_running_loop().call_soon(hold.released.set)
    async with serve() as api:
        answer = await WRITE.to(api)
        assert (answer.status, is_replayed(answer)) == (200, True)
        assert await retries(api) == 1


async def test_but_not_for_ever(serve: Serve, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SHUTDOWN_TIMEOUT_S", 0.02)
    hold = Hold()
    async with serve(Holders(hold), deadline_s=0.02) as api:
        await prepare(api)
        assert (await WRITE.to(api)).status == 504
        await hold.reached.wait()
    async with serve() as api:
        assert is_in_progress(await WRITE.to(api))
        clock.advance(LEASE_S + 0.5)
        check_executed(await WRITE.to(api))
        assert await retries(api) == 1


# -- side by side ----------------------------------------------------------------------------------


@each_route
async def test_deliveries_to_both_are_executed_once(serve: Serve, kind: str) -> None:
    delivery = UNGUARDED[kind]
    async with serve() as one, serve() as other:
        await prepare(one)
        answers = await asyncio.gather(*(delivery.to(api) for api in [one, other] * 6))
        first = check_one_truth(answers)
        for api in (one, other):
            check_replay(await collect(api, delivery), first)
            assert await retries(api) == 1


async def test_what_one_is_at_the_other_does_not_do(serve: Serve) -> None:
    hold = Hold()
    async with serve(Holders(hold)) as one, serve() as other:
        await prepare(one)
        first = asyncio.create_task(WRITE.to(one))
        await hold.reached.wait()
        assert is_in_progress(await WRITE.to(other))
        check_reused(await UNGUARDED["flat"].to(other))
        assert await retries(other) == 0
        hold.released.set()
        check_executed(await first)
        check_replay(await WRITE.to(other), await first)
        assert await retries(other) == 1


async def test_what_one_was_too_late_with_is_collected_from_the_other(serve: Serve) -> None:
    hold = Hold()
    async with serve(Holders(hold), deadline_s=0.02) as one, serve() as other:
        await prepare(one)
        assert (await WRITE.to(one)).status == 504
        await hold.reached.wait()
        assert is_in_progress(await WRITE.to(other))
        hold.released.set()
        answer = await collect(other, WRITE)
        assert (answer.status, is_replayed(answer)) == (200, True)
        assert await retries(other) == 1


@each_route
@pytest.mark.parametrize("protection", [Protection.FENCED, Protection.RECORDED])
async def test_one_that_was_taken_for_dead_commits_nothing(
    serve: Serve, clock: FakeClock, kind: str, protection: Protection
) -> None:
    """But without the fence, with the same schedule, it does."""
    hold, delivery = Hold(), UNGUARDED[kind]
    late, next_ones = Holders(hold), Holders()
    async with serve(late, protection=protection) as one, serve(next_ones, protection=protection) as other:
        await prepare(one)
        zombie = asyncio.create_task(delivery.to(one))
        await hold.reached.wait()
        clock.advance(LEASE_S + 0.5)
        first = await delivery.to(other)
        check_executed(first)
        hold.released.set()
        told = await zombie
        if protection is Protection.FENCED:
            assert is_in_progress(told) or told.body == first.body
            assert await retries(other) == 1
            for api in (one, other):
                check_replay(await delivery.to(api), first)
        else:
            assert told.status == 200
            assert told.body != first.body
            assert await retries(other) == 2
    assert late.tokens[0] < next_ones.tokens[0]
