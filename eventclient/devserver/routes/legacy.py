"""The routes of runs from before event sourcing, and attributes that are set without an event."""

from __future__ import annotations

from aiohttp import web

from eventclient.devserver.account import account_of
from eventclient.devserver.engine import Engine
from eventclient.devserver.legacy import DirectChanges
from eventclient.devserver.listing import entity_response
from eventclient.devserver.requests import (
    CODE_INVALID_REQUEST,
    RefusalError,
    read_flat_event,
    read_map,
    read_segment,
    refusal,
)
from eventclient.devserver.responses import refused_response
from eventclient.model.entities import Run
from eventclient.wire import spec
from eventclient.wire.codec import encode_value
from eventclient.wire.flat import encode_flat_row
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused

from .route import API_PREFIX, Route


class LegacyRoutes:
    """Routes that change runs without events, where those are old.

    Args:
        engine: applies what is posted about newer runs.
        changes: makes the changes of older ones.
    """

    def __init__(self, engine: Engine, changes: DirectChanges) -> None:
        self._engine = engine
        self._changes = changes

    def table(self) -> list[Route]:
        """The routes."""
        runs = f"{API_PREFIX}/v1/runs"
        attributes = f"{API_PREFIX}/v2/runs/{{runId}}/attributes"
        return [
            Route("POST", f"{runs}/create", "legacy-create", self.create),
            Route("PUT", f"{runs}/{{runId}}/cancel", "legacy-cancel", self.cancel),
            Route("POST", f"{runs}/{{runId}}/events", "legacy-event", self.post),
            Route("POST", attributes, "attributes", self.set_attributes),
        ]

    async def create(self, request: web.Request) -> web.Response:
        run = _taken(await self._changes.create(await read_map(request)))
        account_of(request).run_id = run.run_id
        return entity_response(request, run)

    async def cancel(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account = account_of(request)
        account.run_id = run_id
        run = await self._changes.cancel(run_id)
        if run is None:
            posted = PostedEvent("run_cancelled", {}, b"")
            result = await self._engine.create(run_id, posted)
            account.tell(posted, result)
            if isinstance(result, Refused):
                return refused_response(result)
            run = result.run
        if run is None:
            raise TypeError("a run that was cancelled has a run")
        return entity_response(request, _taken(run))

    async def post(self, request: web.Request) -> web.Response:
        """An event, answered with nothing but itself."""
        run_id = read_segment(request, "runId")
        account = account_of(request)
        account.run_id = run_id
        posted = await read_flat_event(request)
        result = await self._engine.create(run_id, posted)
        account.tell(posted, result)
        if isinstance(result, Refused):
            return refused_response(result)
        body = encode_flat_row(result.row, resolve=posted.resolve)
        return web.Response(body=body, content_type=spec.CBOR_CONTENT_TYPE)

    async def set_attributes(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        body = await read_map(request)
        allow_reserved = body.get("allowReservedAttributes", False)
        if not isinstance(allow_reserved, bool):
            raise refusal(CODE_INVALID_REQUEST, "allowReservedAttributes is neither true nor false")
        run = _taken(
            await self._changes.set_attributes(run_id, body.get("changes"), allow_reserved=allow_reserved)
        )
        answer = encode_value({"attributes": run.attributes})
        return web.Response(body=answer, content_type=spec.CBOR_CONTENT_TYPE)


def _taken(result: Run | Refused) -> Run:
    if isinstance(result, Refused):
        raise RefusalError(result)
    return result
