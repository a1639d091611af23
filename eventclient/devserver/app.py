"""The server that serves the routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.clock import Clock, SystemClock
from eventclient.wire.replies import Refused

from .account import account_of
from .engine import Engine
from .notices import Notices
from .requests import CODE_INVALID_REQUEST, RefusalError
from .responses import refused_response
from .routes.frames import FrameRoutes
from .routes.health import HealthRoutes
from .routes.route import Route, RouteFamily
from .store import Store
from .stores.sqlite import SqliteStore

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
SHUTDOWN_TIMEOUT_S: Final = 5.0

_HTTP_CODES: Final = {404: "route-not-found", 405: "method-not-allowed", 413: "body-too-large"}


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
        notices = Notices()
        engine = Engine(self._store, clock or SystemClock(), notices, check_run_time=check_run_time)
        families: list[RouteFamily] = [FrameRoutes(engine), HealthRoutes()]
        self._routes = [route for family in families for route in family.table()]
        self._runner: web.AppRunner | None = None
        self.requests: Counter[str] = Counter()
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
        middlewares = [_count(self._routes, self.requests), *self._middlewares, refuse_in_json]
        app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY_BYTES)
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
