"""A lease is renewed for as long as something is done under it, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from eventclient.devserver.leases import Upkeep
from eventclient.devserver.store import CommitLostError, StoreUnavailableError

LEASE_S = 0.003


class Renewals:
    """Counts renewals; the first of them fail as told."""

    def __init__(self, *failures: Exception) -> None:
        self.count = 0
        self._failures = list(failures)
        self._seen = asyncio.Condition()

    async def renew(self) -> None:
        async with self._seen:
            self.count += 1
            self._seen.notify_all()
        if self._failures:
            raise self._failures.pop(0)

    async def until(self, count: int) -> None:
        async with self._seen:
            await self._seen.wait_for(lambda: self.count >= count)


async def test_it_is_renewed_again_and_again() -> None:
    renewals = Renewals()
    with Upkeep(LEASE_S, renewals.renew):
        await renewals.until(3)


@pytest.mark.parametrize("failure", [StoreUnavailableError("busy"), CommitLostError("gone")])
async def test_one_that_fails_is_not_the_last(failure: Exception) -> None:
    renewals = Renewals(failure)
    with Upkeep(LEASE_S, renewals.renew):
        await renewals.until(2)


async def test_a_failure_of_another_kind_is_told_and_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    renewals = Renewals(RuntimeError("said"))
    with Upkeep(LEASE_S, renewals.renew):
        await renewals.until(2)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_behind_the_block_none_follows() -> None:
    renewals, later = Renewals(), Renewals()
    with Upkeep(LEASE_S, renewals.renew):
        await renewals.until(1)
    count = renewals.count
    with Upkeep(LEASE_S, later.renew):
        await later.until(3)
    # One may have been on its way when the block ended.
    assert renewals.count <= count + 1


async def test_what_ends_soon_costs_no_renewal() -> None:
    renewals = Renewals()
    with Upkeep(1000.0, renewals.renew):
        pass
    assert renewals.count == 0
