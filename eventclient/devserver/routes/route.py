"""What a route is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from aiohttp import web

API_PREFIX: Final = "/api"


class Route(NamedTuple):
    """A route: `name` is what its requests are counted and logged under."""

    method: str
    path: str
    name: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


class RouteFamily(Protocol):
    """Routes that belong together. The first that matches is taken, in the order of the families."""

    def table(self) -> list[Route]:
        """The routes, more special ones first."""
