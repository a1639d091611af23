"""The page at ``/`` and the data it asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from eventclient.clock import Clock
from eventclient.devserver.journal import ANY_RUN, Journal
from eventclient.devserver.notices import Listener, Notices
from eventclient.devserver.page.document import DATA_HEADERS, read_document
from eventclient.devserver.page.news import News, RunNews, RunsNews
from eventclient.devserver.page.timeline import MAX_PAGE, RUNS_PAGE, TIMELINE_PAGE, Json, Position, Timeline
from eventclient.devserver.requests import RefusalError, read_number, read_segment
from eventclient.devserver.ruling import no_run
from eventclient.devserver.store import Store

from .route import Route

PAGE_ROUTE: Final = "page"
PAGE_DATA_ROUTE: Final = "page-data"
PACE_S: Final = 0.1
"""The least time between two looks at what is followed, however fast it changes."""


class PageRoutes:
    """The page, its data, and streams of server-sent events that follow the data.

    Args:
        store: opened.
        journal: of the requests of this server.
        notices: tells of changes.
        clock: paces what is costly to follow.
    """

    def __init__(self, store: Store, journal: Journal, notices: Notices, clock: Clock) -> None:
        self._timeline = Timeline(store, journal)
        self._journal = journal
        self._notices = notices
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._ended = asyncio.Event()

    def table(self) -> list[Route]:
        """The routes."""
        return [
            Route("GET", "/", PAGE_ROUTE, self.page),
            Route("GET", "/__live", PAGE_DATA_ROUTE, self.follow_runs),
            Route("GET", "/__runs", PAGE_DATA_ROUTE, self.list_runs),
            Route("GET", "/__runs/{id}", PAGE_DATA_ROUTE, self.show_run),
            Route("GET", "/__runs/{id}/live", PAGE_DATA_ROUTE, self.follow_run),
        ]

    async def end(self, _app: web.Application) -> None:
        """Let all that follow anything come to an end, and those that begin after this."""
        self._ended.set()
        for listener in self._listeners:
            listener.hear()

    async def page(self, _request: web.Request) -> web.Response:
        document = read_document()
        return web.Response(text=document.text, content_type="text/html", headers=document.headers)

    async def list_runs(self, request: web.Request) -> web.Response:
        limit = read_number(request, "limit", RUNS_PAGE, least=1)
        after = read_number(request, "after", 0) or None
        return _json(await self._timeline.runs(after=after, limit=min(limit, MAX_PAGE)))

    async def show_run(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "id")
        limit = read_number(request, "limit", TIMELINE_PAGE, least=1)
        first = read_number(request, "first", 0) or None
        part = await self._timeline.part(run_id, first, min(limit, MAX_PAGE))
        if part is None:
            raise RefusalError(no_run(run_id))
        return _json(part)

    async def follow_runs(self, request: web.Request) -> web.StreamResponse:
        """The latest runs, then those of them that have changed."""
        return await self._follow(request, ANY_RUN, RunsNews(self._timeline, self._journal, self._clock))

    async def follow_run(self, request: web.Request) -> web.StreamResponse:
        """What comes after slot ``after`` and record ``number`` of a run."""
        run_id = read_segment(request, "id")
        position = Position(read_number(request, "after", 0), read_number(request, "number", 0))
        if await self._timeline.run(run_id) is None:
            raise RefusalError(no_run(run_id))
        return await self._follow(request, run_id, RunNews(self._timeline, run_id, position))

    async def _follow(self, request: web.Request, subject: str, source: News) -> web.StreamResponse:
        """Send what is new until the reader is gone or the server ends."""
        response = web.StreamResponse(headers=DATA_HEADERS)
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)
        with self._listen(subject) as listener:
            while not self._ended.is_set() and request.transport is not None:
                news = await source.look()
                if news is None:
                    await listener.wait()
                else:
                    await response.write(f"data: {_encode(news)}\n\n".encode())
                    await self._pace()
        return response

    @contextmanager
    def _listen(self, subject: str) -> Iterator[Listener]:
        with self._notices.listen(subject) as listener:
            self._listeners.add(listener)
            try:
                yield listener
            finally:
                self._listeners.discard(listener)

    async def _pace(self) -> None:
        try:
            async with asyncio.timeout(PACE_S):
                await self._ended.wait()
        except TimeoutError:
            return


def _json(value: Json) -> web.Response:
    return web.Response(text=_encode(value), content_type="application/json", headers=DATA_HEADERS)


def _encode(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))
