"""The HTTP routes, and the server that serves them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.clock import Clock, SystemClock
from eventclient.model.ids import slot_of
from eventclient.wire import spec
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused

from .engine import Engine, Store
from .requests import (
    CODE_INVALID_REQUEST,
    MAX_BATCH_BODY_BYTES,
    RefusalError,
    read_event,
    read_events,
    read_limit,
    read_log_query,
    read_query_id,
    read_segment,
    wants_frames,
    wants_payloads,
)
from .responses import (
    event_frames,
    frames_response,
    page_response,
    preload_response,
    refused_response,
    results_response,
    written_response,
)
from .ruling import CODE_RUN_NOT_FOUND
from .state import LogQuery, LogRow
from .stores.sqlite import SqliteStore

API_PREFIX: Final = "/api"
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
SHUTDOWN_TIMEOUT_S: Final = 5.0

_HTTP_CODES: Final = {404: "route-not-found", 405: "method-not-allowed", 413: "body-too-large"}

logger = logging.getLogger("eventclient.devserver")


class Routes:
    """The handlers. `requests` counts what came in, by the names in `table`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.requests: Counter[str] = Counter()
        self._names: dict[object, str] = {handler: name for _, _, name, handler in self.table()}

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A middleware that counts every request, whatever becomes of it."""
        self.requests[self._names.get(request.match_info.handler, "other")] += 1
        return await handler(request)

    def table(self) -> list[tuple[str, str, str, Callable[[web.Request], Awaitable[web.Response]]]]:
        """Method, path, name and handler of every route; the first that matches is taken."""
        run = API_PREFIX + spec.RUNS_PATH.format(run_id="{runId}")
        return [
            ("POST", f"{run}/{spec.BATCH_SEGMENT}", "batch", self.create_batch),
            ("POST", f"{run}/{{eventType}}", "single", self.create),
            ("POST", run, "single", self.create),
            ("GET", run, "list", self.list_run),
            ("GET", f"{run}/{{eventId}}", "get", self.get_event),
            ("GET", API_PREFIX + spec.EVENTS_PATH, "correlation", self.list_correlated),
            ("GET", "/healthz", "health", self.health),
        ]

    async def create_batch(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        batch = await read_events(request, max_bytes=MAX_BATCH_BODY_BYTES)
        results = await self._engine.create_batch(run_id, batch)
        if isinstance(results, Refused):
            return refused_response(results)
        return results_response(results, [posted.resolve for posted in batch])

    async def create(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        posted = await read_event(request)
        named = request.match_info.get("eventType", posted.event_type)
        if named != posted.event_type:
            logger.info("the path says %.64r, the frame %.64r: the frame is taken", named, posted.event_type)
        result = await self._engine.create(run_id, posted)
        if isinstance(result, Refused):
            return refused_response(result)
        if wants_frames(request) and _preloads(posted):
            rows = await self._read_log(LogQuery(run_id=run_id))
            # A hook_received is answered with a log to replay, which is of no use without payloads.
            resolve = posted.resolve or posted.event_type != "run_started"
            return preload_response(result, rows, resolve=resolve)
        return written_response(result, resolve=posted.resolve)

    async def list_run(self, request: web.Request) -> web.Response:
        return await self._list(request, read_log_query(request, read_segment(request, "runId")))

    async def list_correlated(self, request: web.Request) -> web.Response:
        run_id = read_query_id(request, "runId")
        correlation_id = read_query_id(request, "correlationId")
        return await self._list(request, read_log_query(request, run_id, correlation_id=correlation_id))

    async def get_event(self, request: web.Request) -> web.Response:
        run_id, event_id = read_segment(request, "runId"), read_segment(request, "eventId")
        slot = slot_of(event_id)
        rows: Sequence[LogRow] = ()
        if slot is not None:
            rows = await self._read_log(LogQuery(run_id=run_id, after=slot - 1, before=slot + 1))
        if not rows:
            message = f"run {run_id} has no event {event_id}"
            return refused_response(Refused(404, "event-not-found", message))
        return frames_response(event_frames(rows, resolve=wants_payloads(request)))

    async def health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _list(self, request: web.Request, query: LogQuery) -> web.Response:
        rows = await self._read_log(query)
        cursor = request.query.get("cursor")
        return page_response(rows, limit=read_limit(request), cursor=cursor, resolve=wants_payloads(request))

    async def _read_log(self, query: LogQuery) -> Sequence[LogRow]:
        rows = await self._engine.read_log(query)
        if rows is None:
            raise RefusalError(Refused(404, CODE_RUN_NOT_FOUND, f"there is no run {query.run_id}"))
        return rows


def _preloads(posted: PostedEvent) -> bool:
    """Whether an event of this kind can be answered with the whole log."""
    if posted.event_type == "run_started":
        return not posted.skip_preload
    is_pair = posted.resume_id is not None and posted.resume_payload_digest is not None
    return posted.event_type == "hook_received" and is_pair


@web.middleware
async def refuse_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal, the framework's own among them, is JSON ``{message, code}``."""
    try:
        return await handler(request)
    except RefusalError as error:
        return refused_response(error.refused)
    except web.HTTPError as error:
        code = _HTTP_CODES.get(error.status, CODE_INVALID_REQUEST)
        response = refused_response(Refused(error.status, code, error.reason))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response


class DevServer:
    """The reference server, serving on a loopback port for as long as the block lasts.

    Args:
        store: where the state is kept; None keeps it in memory. Opened and closed by the server.
        host, port: where to listen; port 0 takes a free one.
        check_run_time: refuse a ``run_created`` whose run id was minted more than 24 h ago or more than
            5 min ahead.
        clock: tells what time it is.
        middlewares: aiohttp middlewares around every route, outermost first: observers, faults.

    Attributes:
        requests: how many requests each route has seen: ``batch``, ``single``, ``list``, ``get``,
            ``correlation``, ``health``, and ``other`` for those without a route.
        url: ``http://HOST:PORT`` while it serves.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        check_run_time: bool = False,
        clock: Clock | None = None,
        middlewares: Sequence[Middleware] = (),
    ) -> None:
        self._store = store if store is not None else SqliteStore()
        self._host = host
        self._port = port
        self._middlewares = middlewares
        engine = Engine(self._store, clock or SystemClock(), check_run_time=check_run_time)
        self._routes = Routes(engine)
        self._runner: web.AppRunner | None = None
        self.requests = self._routes.requests
        self.url = ""

    async def __aenter__(self) -> Self:
        """Open the store and listen.

        Raises:
            ConfigurationError: the store cannot be opened.
            OSError: the address cannot be listened on.
        """
        await self._store.open()
        try:
            self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
            await self._runner.setup()
            await web.TCPSite(self._runner, self._host, self._port).start()
        except BaseException:
            await self.aclose()
            raise
        port = self._runner.addresses[0][1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, let running requests finish, close the store."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self._store.aclose()

    def _app(self) -> web.Application:
        middlewares = [self._routes.count, *self._middlewares, refuse_in_json]
        app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY_BYTES)
        for method, path, _name, handler in self._routes.table():
            app.router.add_route(method, path, handler)
        return app
