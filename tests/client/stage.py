"""A client before a scripted server, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from eventclient import ClientOptions, EventClient
from eventclient.model.events import Event
from eventclient.model.parsing import parse_event
from eventclient.wire.frames import decode_frames
from eventclient.wire.posted import PostedEvent, decode_event
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Reply, Script, ScriptedServer, SeenRequest

from .answers import answered, batch_answer, single_answer


class HeldClock(FakeClock):
    """A clock whose sleeps last until they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.asleep.set()
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Stage:
    """What a test works with."""

    server: ScriptedServer
    client: EventClient
    clock: FakeClock

    @property
    def paths(self) -> list[str]:
        """The last segment of each request's path: a type, or ``batch``."""
        return [request.path.rpartition("/")[2] for request in self.server.requests]

    @property
    def posts(self) -> list[SeenRequest]:
        """The requests that write."""
        return [request for request in self.server.requests if request.method == "POST"]

    @property
    def gets(self) -> list[SeenRequest]:
        """The requests that read."""
        return [request for request in self.server.requests if request.method == "GET"]

    @property
    def sizes(self) -> list[int]:
        """How many events each request carried."""
        return [len(decode_frames(request.body)) for request in self.server.requests]


@asynccontextmanager
async def stage(
    script: Script, *, clock: FakeClock | None = None, repeat_last: bool = False, **options: Any
) -> AsyncIterator[Stage]:
    """A client with `options` before a server that plays `script`."""
    clock = clock if clock is not None else FakeClock()
    async with ScriptedServer(script, repeat_last=repeat_last) as server:
        client = EventClient(server.origin, options=ClientOptions(clock=clock, **options))
        try:
            yield Stage(server, client, clock)
        finally:
            await client.aclose(within=0)


def posted(request: SeenRequest) -> list[PostedEvent]:
    """The events a request carries."""
    return [decode_event(frame) for frame in decode_frames(request.body)]


def posted_events(request: SeenRequest) -> list[Event]:
    """The same as events."""
    told = []
    for each in posted(request):
        mapping: dict[str, Any] = {"eventType": each.event_type, "eventData": each.event_data}
        told.append(
            parse_event(mapping | ({"correlationId": each.correlation_id} if each.correlation_id else {}))
        )
    return told


@dataclass(slots=True)
class Honest:
    """A script that takes every write, run by run in its own slots.

    Attributes:
        log: what was taken, in order: run and correlation id.
        taken: the same as type and correlation id.
        before: what to answer instead; None takes the write. Asked for each request.
    """

    before: Callable[[SeenRequest], Reply | None] = lambda request: None
    log: list[tuple[str, str | None]] = field(default_factory=list)
    taken: list[tuple[str, str | None]] = field(default_factory=list)

    def __call__(self, request: SeenRequest) -> Reply:
        reply = self.before(request)
        if reply is not None and reply.gate is None:
            return reply
        *_, run_id, _, last = map(unquote, request.raw_path.split("/"))
        events = posted_events(request)
        self.log += [(run_id, event.correlation_id) for event in events]
        self.taken += [(event.event_type, event.correlation_id) for event in events]
        if last == "batch":
            body = batch_answer(events, run_id=run_id)
        else:
            body = single_answer(events[0], run_id=run_id)
        taken = answered(body)
        return taken if reply is None else Reply(headers=taken.headers, body=body, gate=reply.gate)
