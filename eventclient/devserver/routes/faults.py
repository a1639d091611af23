"""What was injected so far."""

from __future__ import annotations

from aiohttp import web

from eventclient.devserver.fault_plan import FaultPlan

from .route import Route


class FaultRoutes:
    """One route, for whoever wrote the script of faults."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def table(self) -> list[Route]:
        """The route."""
        return [Route("GET", "/__faults", "faults", self.report)]

    async def report(self, _request: web.Request) -> web.Response:
        """``{seed, injected, rules, recent}``; without a script there are no rules."""
        return web.json_response(self._plan.report())
