"""How a test writes by many tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from eventclient import EventWriter, Receipt
from eventclient.model.events import Event
from tests.support.scripted_server import Fault, Reply

from .samples import RUN
from .stage import Honest

NEVER = Reply(fault=Fault.NEVER)


def give(writer: EventWriter, events: Sequence[Event], run_id: str = RUN) -> list[asyncio.Future[Receipt]]:
    """Each event by a task of its own."""
    return [asyncio.ensure_future(writer.create(run_id, each)) for each in events]


async def ends(calls: Sequence[asyncio.Future[Receipt]]) -> list[Receipt | BaseException]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def held(gate: asyncio.Event) -> Honest:
    """Takes every write once the gate is open."""
    return Honest(lambda request: Reply(gate=gate))
