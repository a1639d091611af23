"""A request that takes longer than its caller is kept waiting: it goes on, and its answer is collected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from eventclient.devserver import notices
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden
from eventclient.devserver.idempotency import KeyOptions
from eventclient.devserver.store import Store, StoreUnavailableError
from eventclient.errors import ConfigurationError
from tests.devserver.api import Api
from tests.devserver.conftest import MakeStore
from tests.devserver.keyed import (
    UNGUARDED,
    Delivery,
    Hold,
    Holders,
    check_executed,
    check_replay,
    check_reused,
    collect,
    each_route,
    is_in_progress,
    is_replayed,
    prepare,
    retries,
    single,
)
from tests.devserver.test_long_poll import Watched, poll
from tests.support.fake_clock import FakeClock

LEASE_S = 600.0
IMPATIENT = KeyOptions(deadline_s=0.02, lease_s=LEASE_S)
PATIENT = KeyOptions(deadline_s=300.0, lease_s=LEASE_S)
WRITE = UNGUARDED["single"]


class Served(Api):
    """A server that keeps nobody waiting while its holders are held, and everybody else for long.

    Only so do tests not depend on how fast the machine is.
    """

    def __init__(self, session: aiohttp.ClientSession, server: DevServer) -> None:
        super().__init__(session, server.url)
        self._keys = server._idempotency

    async def too_late(self, *deliveries: tuple[Delivery, Hold]) -> None:
        """Deliver what is held, and be told that it takes too long."""
        self._keys._options = IMPATIENT
        answers = await asyncio.gather(*(delivery.to(self) for delivery, _ in deliveries))
        self._keys._options = PATIENT
        for answer in answers:
            assert (answer.status, answer.code) == (504, "deadline_exceeded"), answer
            assert answer.headers["Retry-After"] == "1"
            assert not is_replayed(answer)
        for _, hold in deliveries:
            await hold.reached.wait()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(make_store: MakeStore, clock: FakeClock, session: aiohttp.ClientSession) -> Serve:
    """Starts a server whose holders meet what they are told."""

    @asynccontextmanager
    async def serve(*fates: Hold, store: Store | None = None) -> AsyncIterator[Served]:
        hidden = Hidden(between=Holders(*fates))
        async with DevServer(store or make_store(), clock=clock, keys=PATIENT, hidden=hidden) as server:
            yield Served(session, server)

    return serve


@each_route
async def test_it_goes_on_and_is_collected(serve: Serve, kind: str) -> None:
    hold, delivery = Hold(), UNGUARDED[kind]
    async with serve(hold) as api:
        await prepare(api)
        await api.too_late((delivery, hold))
        for _ in range(2):
            assert is_in_progress(await delivery.to(api))
        check_reused(await single("step_retrying", "r", error=b"another").to(api))
        assert await retries(api) == 0
        hold.released.set()
        first = await collect(api, delivery)
        # It was executed before it was asked for again.
        assert (first.status, is_replayed(first)) == (200, True)
        check_replay(await delivery.to(api), first)
        assert await retries(api) == 1


async def test_so_does_one_that_is_refused(serve: Serve) -> None:
    hold = Hold()
    refused = single("step_created", "r", stepName="work")
    async with serve(hold) as api:
        await prepare(api)
        await api.too_late((refused, hold))
        hold.released.set()
        answer = await collect(api, refused)
        assert (answer.status, answer.code, is_replayed(answer)) == (409, "conflict", True)


async def test_it_is_ruled_on_as_the_run_is_when_it_goes_on(serve: Serve) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        await api.too_late((WRITE, hold))
        assert (await api.post("step_completed", "r", result=b"devlr")).status == 200
        hold.released.set()
        answer = await collect(api, WRITE)
        assert (answer.status, answer.code) == (409, "conflict")
        assert await retries(api) == 0


async def test_many_can_be_under_way(serve: Serve) -> None:
    holds = [Hold() for _ in range(5)]
    deliveries = [single("step_retrying", "r", key=f"k{n}", error=b"devle") for n in range(5)]
    async with serve(*holds) as api:
        await prepare(api)
        await api.too_late(*zip(deliveries, holds, strict=True))
        for hold in holds:
            hold.released.set()
        answers = [await collect(api, delivery) for delivery in deliveries]
        assert len({answer.body for answer in answers}) == 5
        assert await retries(api) == 5


async def test_the_lease_of_one_that_is_late_may_end(serve: Serve, clock: FakeClock) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        await api.too_late((WRITE, hold))
        clock.advance(LEASE_S + 0.5)
        first = await WRITE.to(api)
        check_executed(first)
        hold.released.set()
        check_replay(await WRITE.to(api), first)
        assert await retries(api) == 1


@each_route
async def test_a_late_one_that_fails_leaves_its_key_free(
    serve: Serve, make_store: MakeStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold, delivery, store = Hold(), UNGUARDED[kind], make_store()
    change = store.change

    async def fail_once(*_: Any, **__: Any) -> Any:
        vars(store)["change"] = change
        raise StoreUnavailableError("said")

    async with serve(hold, store=store) as api:
        await prepare(api)
        await api.too_late((delivery, hold))
        vars(store)["change"] = fail_once
        hold.released.set()
        first = await collect(api, delivery)
        check_executed(first)
        assert await retries(api) == 1
    assert "never retrieved" not in caplog.text


async def test_who_waits_for_the_run_hears_of_a_late_commit(
    session: aiohttp.ClientSession, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody looks of their own accord.
    monkeypatch.setattr(notices, "POLL_S", 300.0)
    store, hold = Watched(), Hold()
    ended = single("run_completed", output=b"devlo")
    async with DevServer(store, clock=clock, keys=PATIENT, hidden=Hidden(between=Holders(hold))) as server:
        api = Served(session, server)
        await prepare(api)
        waiting = await poll(api, store)
        await api.too_late((ended, hold))
        hold.released.set()
        # Nor does anybody collect the answer.
        async with asyncio.timeout(10):
            assert (await waiting.value())["status"] == "completed"


async def test_an_answer_in_time_is_given(serve: Serve) -> None:
    hold = Hold()
    async with serve(hold) as api:
        await prepare(api)
        first = asyncio.create_task(WRITE.to(api))
        await hold.reached.wait()
        hold.released.set()
        check_executed(await first)


@pytest.mark.parametrize("name", ["deadline_s", "lease_s", "retention_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_durations_are_some_time(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        KeyOptions(**{name: value})


def test_the_defaults_are_as_promised() -> None:
    options = KeyOptions()
    assert (options.deadline_s, options.lease_s, options.retention_s) == (10.0, 15.0, 86400.0)
