"""The clock contract, over every clock there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from eventclient.clock import Clock, SystemClock
from tests.support.fake_clock import FakeClock

CLOCKS: list[Callable[[], Clock]] = [SystemClock, FakeClock]


@pytest.fixture(params=CLOCKS, ids=lambda make: make.__name__)
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_now_never_goes_back(clock: Clock) -> None:
    readings = [clock.now() for _ in range(100)]
    assert readings == sorted(readings)


def test_wall_is_aware_and_utc(clock: Clock) -> None:
    assert clock.wall().utcoffset() == timedelta(0)


def test_jitter_stays_within_its_limit(clock: Clock) -> None:
    assert all(0.0 <= clock.jitter(0.25) <= 0.25 for _ in range(1000))
    assert clock.jitter(0.0) == 0.0


async def test_sleep_moves_now(clock: Clock) -> None:
    before = clock.now()
    await clock.sleep(0.001)
    # Event loops may wake a hair early, within the resolution of their clock.
    assert clock.now() - before >= 0.0009


async def test_a_sleep_ends_when_it_is_cancelled(clock: Clock) -> None:
    sleep = asyncio.ensure_future(clock.sleep(3600.0))
    await asyncio.sleep(0)
    sleep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleep


def test_system_jitter_spreads() -> None:
    clock = SystemClock()
    assert len({clock.jitter(1.0) for _ in range(100)}) > 90
