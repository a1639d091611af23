"""The simulated servers: real ones, reached over bytes in memory, that crash and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, HolderLostError

from .clock import WorldClock
from .database import Database
from .loop import Listener, Place, VirtualLoop
from .plan import PROTECTIONS, Plan
from .trace import Trace

MayHurt = Callable[[str], bool]
"""Asked whether the request of this name may be hurt once more; a yes counts."""


class Connection(asyncio.Transport):
    """The server's end of one connection.

    Args:
        answer: gets what the server wrote, when it has closed the connection; nothing when it was lost.
    """

    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        super().__init__()
        self._written = bytearray()
        self._answer = answer

    def write(self, data: Any) -> None:
        self._written += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self._written += data

    def is_closing(self) -> bool:
        return self._answer.done()

    def close(self) -> None:
        if not self._answer.done():
            self._answer.set_result(bytes(self._written))

    def abort(self) -> None:
        self.close()

    def lose(self) -> None:
        """The connection is gone; what was written is, too."""
        self._written.clear()
        self.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        """Everything has come already."""

    def resume_reading(self) -> None:
        """Everything has come already."""


class Server:
    """One server process."""

    def __init__(self, name: str, site: Site) -> None:
        self.place = Place(name)
        self._site = site
        self._listener: Listener | None = None
        self._connections: list[Connection] = []
        self.is_up = False

    async def start(self) -> None:
        """Start serving; returns when it does."""
        loop = asyncio.get_running_loop()
        await loop.create_task(self._start(), context=self.place.context.copy())

    async def _start(self) -> None:
        loop = cast(VirtualLoop, asyncio.get_running_loop())
        site = self._site
        server = DevServer(
            site.database,
            clock=site.clock,
            keys=site.plan.keys,
            hidden=Hidden(protection=PROTECTIONS[site.plan.kind], between=site.between),
        )
        await server.__aenter__()
        self._listener = loop.listeners[-1]
        self.is_up = True

    async def ask(self, request: bytes) -> bytes:
        """The bytes this server answers with; empty when the connection was lost."""
        if not self.is_up or self._listener is None:
            return b""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        connection = Connection(answer)
        self._connections.append(connection)
        run = self.place.context.copy().run
        protocol = cast(asyncio.Protocol, run(self._listener.accept))
        run(protocol.connection_made, connection)
        run(protocol.data_received, request)
        try:
            return await answer
        finally:
            self._connections.remove(connection)
            if self.place.is_alive:
                run(protocol.connection_lost, None)

    def crash(self) -> None:
        """Die on the spot: nothing of it runs any more, and its connections are gone."""
        self.is_up = False
        self.place.is_alive = False
        for connection in self._connections:
            connection.lose()


class Site:
    """All servers of a world.

    Args:
        may_hurt: asked before a holder is lost.

    Attributes:
        is_kind: no holder stalls or dies.
    """

    def __init__(
        self,
        plan: Plan,
        database: Database,
        clock: WorldClock,
        chance: Random,
        trace: Trace,
        may_hurt: MayHurt,
    ) -> None:
        self.plan = plan
        self.database = database
        self.clock = clock
        self._chance = chance
        self._trace = trace
        self._may_hurt = may_hurt
        self._started = 0
        self.is_kind = True
        self.servers: list[Server] = []

    async def start(self) -> None:
        """Start as many servers as the plan wants."""
        for _ in range(self.plan.server_count):
            self.servers.append(await self._start_one())

    async def _start_one(self) -> Server:
        self._started += 1
        server = Server(f"server {self._started}", self)
        await server.start()
        return server

    def choose(self) -> Server:
        """A server for the next request, up or down."""
        return self.servers[int(self._chance.random() * len(self.servers))]

    async def replace(self, server: Server, down_s: float) -> None:
        """Crash `server`; another one takes its place after `down_s` seconds."""
        server.crash()
        self._trace.note(server.place.name, "crashes")
        await asyncio.sleep(down_s)
        heir = await self._start_one()
        self.servers[self.servers.index(server)] = heir
        self._trace.note(heir.place.name, "starts")

    async def lose_power(self, down_s: float) -> None:
        """All servers crash, and the database with them; others start after `down_s` seconds."""
        for server in self.servers:
            server.crash()
        self.database.lose_power()
        await asyncio.sleep(down_s)
        for index, server in enumerate(self.servers):
            if not server.is_up:
                self.servers[index] = await self._start_one()

    async def between(self, run_id: str, key: str, token: int) -> None:
        """What happens to a holder between its claim and its commit."""
        chance, plan = self._chance, self.plan
        if self.is_kind:
            return
        if chance.random() < plan.dies and self._may_hurt(f"POST {key}"):
            self._trace.note("holder", "of {} (token {}) is gone", key, token)
            raise HolderLostError
        if chance.random() < plan.stalls:
            stall_s = chance.random() * 2.5 * plan.keys.lease_s
            self._trace.note("holder", "of {} (token {}) stalls for {:.3f} s", key, token, stall_s)
            await asyncio.sleep(stall_s)
