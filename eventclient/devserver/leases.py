"""Claims that are kept up while something is executed under them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from .store import CommitLostError, StoreUnavailableError

logger: Final = logging.getLogger("eventclient.devserver")

RENEWALS: Final = 3
"""How often a lease is renewed in the time it would last: one that fails costs nothing."""


class Upkeep:
    """Renews a lease for as long as the block lasts.

    A process that dies or stands still renews nothing, which is what a lease is for.

    Args:
        lease_s: how long it lasts each time.
        renew: renews it once.
    """

    def __init__(self, lease_s: float, renew: Callable[[], Awaitable[None]]) -> None:
        self._interval_s = lease_s / RENEWALS
        self._renew = renew
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._arm()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._begin)

    def _begin(self) -> None:
        self._work = asyncio.ensure_future(self._renew_once())

    async def _renew_once(self) -> None:
        try:
            await self._renew()
        except (StoreUnavailableError, CommitLostError):
            logger.info("a lease was not renewed: the store cannot be used at the moment")
        except Exception as error:  # noqa: BLE001 - it lapses, then, and the fence keeps apart who reclaims it
            # What a database says may quote what it was given.
            logger.warning("a lease was not renewed: %s", type(error).__name__)
        if self._timer is not None:
            self._arm()
