"""Reads that wait for a run to end, for a bounded time."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from eventclient.clock import Clock
from eventclient.model.entities import Run
from eventclient.model.lifecycle import run_state

from .notices import Listener, Notices
from .store import RunQuery, Store

MAX_WAIT_S: Final = 25.0
"""The longest wait, whatever was asked for. Source: `@workflow/world-vercel` 5.0.0-beta.50, which says
that the hosted server has such a limit and holds requests for about this long."""


class LongPolls:
    """The waits under way.

    Args:
        store: opened.
        notices: where changes of runs are told of, under their ids.
        clock: measures the waits.
    """

    def __init__(self, store: Store, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._ended = False

    async def read_run(self, run_id: str) -> Run | None:
        """The run as it is."""
        listed = await self._store.read_runs(RunQuery(run_id=run_id))
        return listed[0].entity if listed else None

    async def wait(self, run_id: str, wait_s: float, transport: asyncio.BaseTransport | None) -> Run | None:
        """The run once it has ended, or as it is after `wait_s` seconds; None when there is none.

        Returns before that when the reader, who is at the other end of `transport`, has gone or the
        server stops.
        """
        deadline = self._clock.now() + min(wait_s, MAX_WAIT_S)
        with self._notices.listen(run_id) as listener:
            self._listeners.add(listener)
            try:
                while True:
                    run = await self.read_run(run_id)
                    left_s = deadline - self._clock.now()
                    gone = transport is None or transport.is_closing()
                    if run is None or run_state(run).ended or left_s <= 0 or gone or self._ended:
                        return run
                    await listener.wait(left_s)
            finally:
                self._listeners.discard(listener)

    async def end(self, _app: web.Application) -> None:
        """Answer all waits with what there is, and those that begin after this at once."""
        self._ended = True
        for listener in self._listeners:
            listener.hear()
