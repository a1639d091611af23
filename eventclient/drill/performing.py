"""Operations made through a client, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from eventclient.client.client import EventClient
from eventclient.errors import EventClientError
from eventclient.model.outcomes import Receipt

from .course import CURRENT, Course

T = TypeVar("T")


async def in_parallel(count: int, items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do `work` on all `items`, on `count` of them at once.

    Raises:
        Exception: what the first work that failed raised; the rest is given up.
    """
    queue = iter(items)

    async def go_on() -> None:
        for item in queue:
            await work(item)

    workers = [asyncio.ensure_future(go_on()) for _ in range(min(count, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)


async def perform(client: EventClient, course: Course) -> None:
    """Make the operation of `course`, and note what the client says of it."""
    token = CURRENT.set(course)
    try:
        receipts = await _write(client, course)
    except EventClientError as error:
        receipts = error.receipts
        course.tell(f"the client raises {type(error).__name__}")
    finally:
        CURRENT.reset(token)
        # Whoever is still held up may go on: there is nothing left to come between.
        course.wake.set()
    course.outcomes = tuple(receipt.outcome for receipt in receipts)
    course.tell(f"the client says {', '.join(course.outcomes) or 'nothing'}")


async def _write(client: EventClient, course: Course) -> Sequence[Receipt]:
    events = course.operation.events()
    if course.operation.kind.is_batch:
        # Above 1 a call does not wait for its turn, so that one that is held up holds up no other.
        return await client.create_batch(course.run_id, events, concurrency=2)
    return (await client.create(course.run_id, events[0]),)
