"""Whether the server is there."""

from __future__ import annotations

from aiohttp import web

from .route import Route


class HealthRoutes:
    """One route, for probes."""

    def table(self) -> list[Route]:
        """The route."""
        return [Route("GET", "/healthz", "health", self.health)]

    async def health(self, _request: web.Request) -> web.Response:
        """200 for as long as requests are taken."""
        return web.json_response({"status": "ok"})
