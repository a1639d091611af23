"""Plays a captured case against our client and says how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from unittest.mock import patch

from eventclient import ClientOptions, EventClient, EventClientError, Log, Receipt, StoredEvent
from eventclient.batching.chunks import Chunk
from eventclient.client import writes

from .calls import Write, reading_of, write_of
from .fake_clock import FakeClock
from .scripted_server import ScriptedServer, SeenRequest, refused_origin
from .scripts import replies

READS: Final = ("events.get", "events.list", "events.listByCorrelationId")
CAPTURED_AT: Final = datetime(2026, 11, 30, 2, 7, 36, 769_000, UTC)
"""The moment all cases are about; the HTTP dates in their answers lie 20 minutes behind it."""
PATIENCE_S: Final = 0.05
"""Real seconds until our client gives up on an answer that never comes."""


@dataclass(slots=True)
class Played:
    """How a case ended for our client.

    Attributes:
        receipts: of a write, one per event.
        value: of a read that returned.
        error: what was raised.
    """

    clock: FakeClock
    receipts: tuple[Receipt, ...] = ()
    value: StoredEvent | Log | None = None
    error: EventClientError | None = None
    requests: list[SeenRequest] = field(default_factory=list)

    @property
    def compared(self) -> list[SeenRequest]:
        """The requests the published client sends, too: of a write the posts.

        Ours may read besides, to learn what became of them.
        """
        posts = [request for request in self.requests if request.method == "POST"]
        return posts or self.requests

    @property
    def identical_bodies(self) -> bool:
        return len({request.body for request in self.compared}) <= 1


async def play(case: dict[str, Any]) -> Played:
    """Call our client as the published one was called, against the same answers.

    The last answer is repeated for as long as our client asks.
    """
    played = Played(FakeClock(start=CAPTURED_AT))
    with _environment(case):
        async with _server(case) as (origin, server):
            await _play(case, played, origin, server)
    return played


async def _play(case: dict[str, Any], played: Played, origin: str, server: ScriptedServer | None) -> None:
    options = ClientOptions(clock=played.clock, read_timeout_s=PATIENCE_S if _stalls(server) else 30.0)
    async with EventClient(origin, token="tok", options=options) as client:
        try:
            if case["call"]["method"] in READS:
                played.value = await reading_of(case).first(client)
            else:
                await _write(client, write_of(case), played)
        except EventClientError as error:
            played.error = error
            played.receipts = error.receipts
    if server is not None:
        played.requests = server.requests


@contextmanager
def _environment(case: dict[str, Any]) -> Iterator[None]:
    """The variables of `case`, and the kill switch off."""
    try:
        with patch.dict(os.environ, case.get("env", {})):
            os.environ.pop("WORKFLOW_BATCH_TRANSITIONS", None)
            time.tzset()
            yield
    finally:
        time.tzset()


def _stalls(server: ScriptedServer | None) -> bool:
    script = server.script if server is not None else ()
    return not callable(script) and any(reply.fault in ("never", "stall_mid_body") for reply in script)


@asynccontextmanager
async def _server(case: dict[str, Any]) -> AsyncIterator[tuple[str, ScriptedServer | None]]:
    if case.get("no_server"):
        async with refused_origin() as origin:
            yield origin, None
        return
    async with ScriptedServer(replies(case), repeat_last=True) as server:
        yield server.origin, server


async def _write(client: EventClient, write: Write, played: Played) -> None:
    events = write.events()
    if not write.batch:
        played.receipts = (await client.create(write.run_id, events[0], **write.params),)
        return
    # What our client would post singly or in several batches still shows how it reads one batch answer.
    whole = [Chunk(0, len(events), batch=True)]
    with patch.object(writes, "plan_chunks", lambda *_: whole):
        played.receipts = tuple(await client.create_batch(write.run_id, events, **write.params))
