"""The server that serves the routes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.clock import Clock, SystemClock
from eventclient.wire.replies import Refused

from .access_log import AccessLog
from .account import account_of
from .connections import listen
from .engine import Engine
from .fault_plan import FaultPlan
from .faults import FaultScript
from .guard import check_exposure, make_guard
from .hidden import Hidden, HolderLostError
from .idempotency import Idempotency, KeyOptions
from .injection import Injector, hang_up
from .journal import MAX_KEPT, Journal
from .keys import advertise, refuse_stray_keys
from .legacy import DirectChanges
from .limits import LIMITS, Limits
from .live_reads import LiveReads
from .long_polls import LongPolls
from .notices import Notices
from .requests import CODE_BODY_TOO_LARGE, CODE_INVALID_REQUEST, RefusalError
from .responses import refused_response
from .routes.cancellation import CancellationRoutes
from .routes.entities import EntityRoutes
from .routes.faults import FaultRoutes
from .routes.flat_events import FlatEventRoutes
from .routes.frames import FrameRoutes
from .routes.health import HealthRoutes
from .routes.legacy import LegacyRoutes
from .routes.page import PageRoutes
from .routes.route import Route, RouteFamily
from .routes.streams import StreamRoutes
from .store import Store, StoreUnavailableError
from .stores.sqlite import SqliteStore

logger = logging.getLogger("eventclient.devserver")

SHUTDOWN_TIMEOUT_S: Final = 5.0

CODE_STORE_UNAVAILABLE: Final = "store-unavailable"
STORE_RETRY_S: Final = 1
"""After how long a caller is asked to come back to a store that could not be used."""
_HTTP_CODES: Final = {404: "route-not-found", 405: "method-not-allowed", 413: CODE_BODY_TOO_LARGE}


@web.middleware
async def refuse_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal, the framework's own among them, is JSON ``{message, code}``."""
    try:
        return await handler(request)
    except RefusalError as error:
        return refused_response(error.refused)
    except HolderLostError:
        return hang_up(request)
    except StoreUnavailableError as error:
        # What the database said may name places that are not the caller's business.
        logger.warning("the store is unavailable: %s", error)
        message = "the store cannot be used at the moment: nothing was written"
        return refused_response(Refused(503, CODE_STORE_UNAVAILABLE, message, retry_after_s=STORE_RETRY_S))
    except web.HTTPError as error:
        code = _HTTP_CODES.get(error.status, CODE_INVALID_REQUEST)
        response = refused_response(Refused(error.status, code, error.reason))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response


class DevServer:
    """The reference server, serving for as long as the block lasts.

    Raises:
        ConfigurationError: a token that cannot be sent, an address others can reach without one, or
            faults for routes that there are not.

    Args:
        store: where the state is kept; None keeps it in memory. Opened and closed by the server.
        host, port: where to listen; port 0 takes a free one.
        check_run_time: refuse a ``run_created`` whose run id was minted more than 24 h ago or more than
            5 min ahead.
        clock: tells what time it is.
        middlewares: aiohttp middlewares around every route, outermost first: observers, faults.
        token: what callers have to send as ``Authorization: Bearer``; None asks nobody for anything.
        allow_anyone: listen on an address others can reach although there is no token.
        limits: how much a caller may ask of the server.
        faults: which requests are to meet which misfortune; ``GET /__faults`` tells what came of it.
        access_log: is handed one line of JSON for every request, when the request has ended. It must not
            wait for anything: the server waits for it. What it raises is logged once, and hurts no request.
        keys: how long it stands by an idempotency key.
        hidden: switches for tests and drills.
        max_kept: how much the page remembers of requests; see `MAX_KEPT` in `journal`.

    Attributes:
        requests: how many requests each route has seen, by the names in the tables of `routes`; ``other``
            for those without a route.
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
        token: str | None = None,
        allow_anyone: bool = False,
        limits: Limits | None = None,
        faults: FaultScript | None = None,
        access_log: Callable[[str], None] | None = None,
        max_kept: int = MAX_KEPT,
        keys: KeyOptions | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        check_exposure(host, token, allow_anyone=allow_anyone)
        self._limits = limits or Limits()
        self._guard = make_guard(host, token, self._limits)
        self._store = store or SqliteStore()
        self._host, self._port, self._middlewares = host, port, middlewares
        notices, clock = Notices(), clock or SystemClock()
        self._idempotency = Idempotency(self._store, clock, notices, keys, hidden)
        engine = Engine(self._store, clock, notices, self._idempotency, check_run_time=check_run_time)
        log = access_log and AccessLog(access_log).tell
        self._journal = Journal(clock, notices, log, max_kept=max_kept)
        script = faults or FaultScript()
        plan = FaultPlan(script)
        self._injector = Injector(plan, clock) if faults is not None else None
        self._reads = LiveReads(self._store, notices)
        self._endings: list[Callable[[web.Application], Awaitable[None]]] = []
        families = self._families(engine, notices, clock, plan)
        self._routes = [route for family in families for route in family.table()]
        script.check_routes({route.name for route in self._routes})
        self._listener: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self.requests: Counter[str] = Counter()
        self.url = ""

    def _families(self, engine: Engine, notices: Notices, clock: Clock, plan: FaultPlan) -> list[RouteFamily]:
        polls = LongPolls(self._store, notices, clock)
        page = PageRoutes(self._store, self._journal, notices, clock)
        self._endings = [self._reads.end, polls.end, page.end]
        return [
            CancellationRoutes(engine, self._store),
            FrameRoutes(engine),
            FlatEventRoutes(engine, clock),
            EntityRoutes(self._store, polls, clock),
            LegacyRoutes(engine, DirectChanges(self._store, notices, clock)),
            StreamRoutes(self._store, notices, self._reads),
            HealthRoutes(),
            FaultRoutes(plan),
            page,
        ]

    async def __aenter__(self) -> Self:
        """Open the store and listen.

        Raises:
            ConfigurationError: the store cannot be opened.
            OSError: the address cannot be listened on.
        """
        await self._store.open()
        try:
            await self._idempotency.sweep()
            self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
            await self._runner.setup()
            self._listener = await listen(
                self._runner, self._host, self._port, self._limits, self._journal.refuse
            )
        except BaseException:
            await self.aclose()
            raise
        port = self._listener.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, let running requests finish, close the store."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self._idempotency.aclose(SHUTDOWN_TIMEOUT_S)
        await self._store.aclose()

    def _app(self) -> web.Application:
        middlewares = [
            _count(self._routes, self.requests),
            self._journal.middleware(),
            *self._middlewares,
            self._guard,
            refuse_stray_keys(),
            *([self._injector.middleware] if self._injector is not None else []),
            refuse_in_json,
        ]
        app = web.Application(middlewares=middlewares, client_max_size=self._limits.max_body_bytes + 1)
        app[LIMITS] = self._limits
        if self._injector is not None:
            self._injector.attach(app)
        app.on_response_prepare.append(advertise)
        app.on_shutdown.extend(self._endings)
        for route in self._routes:
            app.router.add_route(route.method, route.path, route.handler)
        return app


def _count(routes: Sequence[Route], requests: Counter[str]) -> Middleware:
    """A middleware that counts every request by the name of its route, whatever becomes of it."""
    names: dict[object, str] = {route.handler: route.name for route in routes}

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        account = account_of(request)
        account.route = names.get(request.match_info.handler, account.route)
        requests[account.route] += 1
        return await handler(request)

    return count
