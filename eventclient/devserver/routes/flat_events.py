"""Events with their payloads inside: the route of posts and lists that the Python client uses."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from eventclient.clock import Clock
from eventclient.devserver.account import account_of
from eventclient.devserver.cursor import encode_cursor
from eventclient.devserver.engine import PAGE_SIZE, Engine
from eventclient.devserver.keys import marked, read_key, unsupported
from eventclient.devserver.legacy import mint_run_id
from eventclient.devserver.requests import (
    CODE_INVALID_REQUEST,
    RefusalError,
    read_flat_event,
    read_limit,
    read_log_query,
    read_segment,
    refusal,
    wants_payloads,
)
from eventclient.devserver.responses import refused_response
from eventclient.devserver.ruling import no_run
from eventclient.wire import spec
from eventclient.wire.flat import encode_flat_row, encode_flat_written, encode_page
from eventclient.wire.replies import Refused

from .route import API_PREFIX, Route

NO_RUN_ID: Final = "null"
"""Stands in the path of a ``run_created`` whose run has no id yet. Source: `vercel-workflow` 0.12.0."""


class FlatEventRoutes:
    """Routes that carry flat events.

    Args:
        engine: applies them.
        clock: dates the run ids that are minted here.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def table(self) -> list[Route]:
        """The routes."""
        path = f"{API_PREFIX}/v3/runs/{{runId}}/events"
        return [
            Route("POST", path, "flat", self.create),
            Route("GET", path, "flat-list", self.list_run),
        ]

    async def create(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        posted = await read_flat_event(request)
        key = await read_key(request, "flat")
        if run_id == NO_RUN_ID:
            if key is not None:
                raise RefusalError(unsupported())
            if posted.event_type != "run_created":
                raise refusal(CODE_INVALID_REQUEST, f"{posted.event_type} needs the id of a run")
            run_id = mint_run_id(self._clock.wall())
        account = account_of(request)
        account.run_id = run_id
        answer = await self._engine.answer(run_id, posted, key)
        account.tell(posted, answer.result)
        account.is_replayed = answer.is_replayed
        if isinstance(answer.result, Refused):
            response = refused_response(answer.result)
        else:
            body = encode_flat_written(answer.result, resolve=posted.resolve)
            response = web.Response(body=body, content_type=spec.CBOR_CONTENT_TYPE)
        return marked(response, key, is_replayed=answer.is_replayed)

    async def list_run(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        limit = read_limit(request) or PAGE_SIZE
        rows = await self._engine.read_log(read_log_query(request, run_id))
        if rows is None:
            raise RefusalError(no_run(run_id))
        page = rows[:limit]
        resolve = wants_payloads(request)
        body = encode_page(
            [encode_flat_row(row, resolve=resolve) for row in page],
            cursor=encode_cursor(page[-1].event_id) if page else request.query.get("cursor"),
            has_more=len(rows) > len(page),
        )
        return web.Response(body=body, content_type=spec.CBOR_CONTENT_TYPE)
