"""Pages of a log, and how a test reads them."""

from __future__ import annotations

from typing import Any

from eventclient import Log
from tests.support.scripted_server import Reply

from .answers import end_frame, event_frame, log_reply, stored_map
from .samples import RUN, event
from .stage import Stage


def frames(*slots: int, run_id: str = RUN) -> bytes:
    return b"".join(
        event_frame(stored_map(event("step_created"), slot, run_id), b"payload %d" % slot) for slot in slots
    )


def cursor(slot: int) -> str:
    return f"eid:evnt_{slot:026d}"


def page(*slots: int, more: bool = False, at: str | None = None) -> Reply:
    return log_reply(frames(*slots) + end_frame(at or cursor(slots[-1]), has_more=more))


def cut(*slots: int) -> Reply:
    return log_reply(frames(*slots))


def cursors(it: Stage) -> list[str | None]:
    return [dict(request.query).get("cursor") for request in it.server.requests]


async def slots_of(it: Stage, **options: Any) -> list[int]:
    return [int(each.event_id[-3:]) for each in await it.client.read_log(RUN, **options)]


async def pages_of(it: Stage, **options: Any) -> list[Log]:
    return [each async for each in it.client.list_events(RUN, **options)]
