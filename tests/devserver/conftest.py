from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.store import Store
from eventclient.devserver.stores import STORES
from tests.devserver.api import Api
from tests.support.fake_clock import FakeClock

MakeStore = Callable[[], Store]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "file"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes stores of one kind; those of a durable kind share what they keep."""
    place = ":memory:" if request.param == "memory" else str(tmp_path / "runs.db")
    return lambda: STORES["sqlite"](place)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def server(make_store: MakeStore, clock: FakeClock) -> AsyncIterator[DevServer]:
    async with DevServer(make_store(), clock=clock) as server:
        yield server


@pytest.fixture
def api(server: DevServer, session: aiohttp.ClientSession) -> Api:
    return Api(session, server.url)
