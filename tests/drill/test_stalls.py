"""What becomes of the holder of a claim."""

from __future__ import annotations

import asyncio

import pytest

from eventclient.devserver.hidden import HolderLostError
from eventclient.drill.course import CURRENT, Course, Courses
from eventclient.drill.faults import ZOMBIES, Way
from eventclient.drill.stalls import BEYOND_DEADLINE_S, KEYS, SLOW_S, Stalls
from tests.support.fake_clock import FakeClock

from .rows import RUN, course


class Site:
    """One operation, its key, and the stalls that know it."""

    def __init__(self, way: Way | None) -> None:
        self.clock = FakeClock()
        self.course: Course = course(way=way)
        courses = Courses([self.course])
        token = CURRENT.set(self.course)
        self.key = courses.mint_key()
        CURRENT.reset(token)
        self.stalls = Stalls(courses, self.clock)

    async def claim(self, token: int) -> None:
        await self.stalls.between(RUN, self.key, token)


def test_the_times_fit_each_other() -> None:
    # Whoever is asked to come back does so after a second.
    assert KEYS.lease_s < 1.0
    assert SLOW_S < KEYS.deadline_s < BEYOND_DEADLINE_S < KEYS.deadline_s + 1.0


async def test_a_key_of_nobody_is_let_through() -> None:
    await Site(Way.HOLDER_LOST).stalls.between(RUN, "another", 1)


@pytest.mark.parametrize("way", [None, Way.LOST_ONCE, Way.IN_TURN, Way.OTHER_PAYLOAD])
async def test_what_meets_its_fault_elsewhere_is_let_through(way: Way | None) -> None:
    site = Site(way)
    await site.claim(1)
    assert site.clock.sleeps == []
    assert site.course.claimed.is_set()
    assert site.course.steps == ["the key is claimed under token 1"]


async def test_the_first_holder_is_lost_and_the_second_is_not() -> None:
    site = Site(Way.HOLDER_LOST)
    with pytest.raises(HolderLostError):
        await site.claim(1)
    assert site.course.is_injected
    await site.claim(2)


@pytest.mark.parametrize(
    ("way", "delay_s"), [(Way.GIVES_UP, SLOW_S), (Way.DEADLINE_PASSES, BEYOND_DEADLINE_S)]
)
async def test_the_first_holder_is_slow(way: Way, delay_s: float) -> None:
    site = Site(way)
    await site.claim(1)
    assert site.clock.sleeps == [delay_s]
    assert site.course.is_injected
    await site.claim(2)
    assert site.clock.sleeps == [delay_s]


async def test_a_late_zombie_goes_on_when_the_operation_is_over() -> None:
    site = Site(Way.LATE_ZOMBIE)
    zombie = asyncio.ensure_future(site.claim(1))
    await asyncio.sleep(0)
    await site.claim(2)
    await asyncio.sleep(0)
    assert not zombie.done()
    site.course.wake.set()
    await zombie
    assert site.course.is_injected


async def test_a_racing_zombie_goes_on_when_it_is_succeeded() -> None:
    site = Site(Way.RACING_ZOMBIE)
    zombie = asyncio.ensure_future(site.claim(1))
    await asyncio.sleep(0)
    assert not zombie.done()
    await site.claim(2)
    await zombie
    assert site.course.is_injected


@pytest.mark.parametrize("way", sorted(ZOMBIES))
async def test_without_a_successor_it_was_no_zombie(way: Way) -> None:
    site = Site(way)
    zombie = asyncio.ensure_future(site.claim(1))
    await asyncio.sleep(0)
    site.course.wake.set()
    await zombie
    assert not site.course.is_injected


async def test_a_zombie_nobody_wakes_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventclient.drill.stalls.LONGEST_STALL_S", 0.0)
    site = Site(Way.LATE_ZOMBIE)
    await site.claim(1)
    assert site.course.steps[-1] == "the holder of 1 goes on to its commit"
