"""Events as frames: single posts, batches, LIST, GET one, by correlation id."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aiohttp import web

from eventclient.devserver.account import account_of
from eventclient.devserver.engine import Engine
from eventclient.devserver.evaluation import Answer
from eventclient.devserver.keys import marked, read_key
from eventclient.devserver.requests import (
    RefusalError,
    read_batch,
    read_event,
    read_limit,
    read_log_query,
    read_query_id,
    read_segment,
    wants_frames,
    wants_payloads,
)
from eventclient.devserver.responses import (
    event_frames,
    frames_response,
    page_response,
    preload_response,
    refused_response,
    results_response,
    written_response,
)
from eventclient.devserver.ruling import no_run
from eventclient.devserver.state import LogQuery, LogRow
from eventclient.model.ids import slot_of
from eventclient.wire import spec
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused, Written

from .route import API_PREFIX, Route

logger = logging.getLogger("eventclient.devserver")


class FrameRoutes:
    """Routes that carry frames."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def table(self) -> list[Route]:
        """The routes."""
        run = API_PREFIX + spec.RUNS_PATH.format(run_id="{runId}")
        return [
            Route("POST", f"{run}/{spec.BATCH_SEGMENT}", "batch", self.create_batch),
            Route("POST", f"{run}/{{eventType}}", "single", self.create),
            Route("POST", run, "single", self.create),
            Route("GET", run, "list", self.list_run),
            Route("GET", f"{run}/{{eventId}}", "get", self.get_event),
            Route("GET", API_PREFIX + spec.EVENTS_PATH, "correlation", self.list_correlated),
        ]

    async def create_batch(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account = account_of(request)
        account.run_id = run_id
        batch = await read_batch(request)
        key = await read_key(request, "batch")
        answer = await self._engine.answer_batch(run_id, batch, key)
        account.is_replayed = answer.is_replayed
        if isinstance(answer.result, Refused):
            return marked(refused_response(answer.result), key, is_replayed=answer.is_replayed)
        for posted, result in zip(batch, answer.result, strict=True):
            account.tell(posted, result)
        response = results_response(answer.result, [posted.resolve for posted in batch])
        return marked(response, key, is_replayed=answer.is_replayed)

    async def create(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account = account_of(request)
        account.run_id = run_id
        posted = await read_event(request)
        named = request.match_info.get("eventType", posted.event_type)
        if named != posted.event_type:
            logger.info("the path says %.64r, the frame %.64r: the frame is taken", named, posted.event_type)
        key = await read_key(request, "single")
        answer = await self._engine.answer(run_id, posted, key)
        account.tell(posted, answer.result)
        account.is_replayed = answer.is_replayed
        response = await self._response(request, posted, answer)
        return marked(response, key, is_replayed=answer.is_replayed)

    async def _response(
        self, request: web.Request, posted: PostedEvent, answer: Answer[Written | Refused]
    ) -> web.Response:
        result = answer.result
        if isinstance(result, Refused):
            return refused_response(result)
        if wants_frames(request) and _preloads(posted):
            # A hook_received is answered with a log to replay, which is of no use without payloads.
            resolve = posted.resolve or posted.event_type != "run_started"
            query = LogQuery(run_id=read_segment(request, "runId"), before=answer.end, payloads=resolve)
            return preload_response(result, await self._read_log(query), resolve=resolve)
        return written_response(result, resolve=posted.resolve)

    async def list_run(self, request: web.Request) -> web.Response:
        return await self._list(request, read_log_query(request, read_segment(request, "runId")))

    async def list_correlated(self, request: web.Request) -> web.Response:
        run_id = read_query_id(request, "runId")
        correlation_id = read_query_id(request, "correlationId")
        return await self._list(request, read_log_query(request, run_id, correlation_id=correlation_id))

    async def get_event(self, request: web.Request) -> web.Response:
        run_id, event_id = read_segment(request, "runId"), read_segment(request, "eventId")
        account_of(request).run_id = run_id
        slot, resolve = slot_of(event_id), wants_payloads(request)
        rows: Sequence[LogRow] = ()
        if slot is not None:
            query = LogQuery(run_id=run_id, after=slot - 1, before=slot + 1, payloads=resolve)
            rows = await self._read_log(query)
        if not rows:
            message = f"run {run_id} has no event {event_id}"
            return refused_response(Refused(404, "event-not-found", message))
        return frames_response(event_frames(rows, resolve=resolve))

    async def _list(self, request: web.Request, query: LogQuery) -> web.Response:
        account_of(request).run_id = query.run_id
        rows = await self._read_log(query)
        cursor = request.query.get("cursor")
        return page_response(rows, limit=read_limit(request), cursor=cursor, resolve=wants_payloads(request))

    async def _read_log(self, query: LogQuery) -> Sequence[LogRow]:
        rows = await self._engine.read_log(query)
        if rows is None:
            raise RefusalError(no_run(query.run_id))
        return rows


def _preloads(posted: PostedEvent) -> bool:
    """Whether an event of this kind can be answered with the whole log."""
    if posted.event_type == "run_started":
        return not posted.skip_preload
    is_pair = posted.resume_id is not None and posted.resume_payload_digest is not None
    return posted.event_type == "hook_received" and is_pair
