"""`EventWriter`: single writes from many tasks, sent in batches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from eventclient.batching.coalescer import Coalescer
from eventclient.errors import ConfigurationError, EventClientError, InvalidEventError, TransportError
from eventclient.model.events import Event
from eventclient.model.outcomes import FAILURES, BatchResult, Outcome, Receipt
from eventclient.wire.requests import encode_event

from .endpoint import segment
from .options import ClientOptions
from .receipts import unsent
from .writes import check_event

if TYPE_CHECKING:
    from collections.abc import Iterable


class BatchCreator(Protocol):
    """What a writer needs of a client."""

    async def create_batch(self, run_id: str, events: Sequence[Event]) -> BatchResult: ...


@dataclass(slots=True, eq=False)
class _Ticket:
    """One event on its way, and the caller who waits for it."""

    run_id: str
    event: Event
    size: int
    future: asyncio.Future[Receipt]


class EventWriter:
    """Coalesces concurrent single writes into batches. Made by `EventClient.writer`.

    Events of one run are sent in the order they were given. While a batch of a run is under way, what is
    given meanwhile gathers for the next one. The queue is bounded: a full one makes `create` wait.
    """

    def __init__(
        self,
        client: BatchCreator,
        options: ClientOptions,
        *,
        linger_s: float = 0.0,
        max_pending_events: int = 10_000,
        max_pending_bytes: int = 64 << 20,
    ) -> None:
        """
        Args:
            linger_s: how long a first event waits for company, seconds, at least 0.
            max_pending_events, max_pending_bytes: how much may be on its way before `create` waits.

        Raises:
            ConfigurationError: an option is out of its range.
        """
        if not 0 <= linger_s < float("inf"):
            raise ConfigurationError(f"writer(linger_s={linger_s!r}): must be finite and at least 0")
        if max_pending_events < 1 or max_pending_bytes < 1:
            raise ConfigurationError("writer(max_pending_...): must be at least 1")
        self._client = client
        self._options = options
        self._max_events = max_pending_events
        self._max_bytes = max_pending_bytes
        self._coalescer: Coalescer[_Ticket] = Coalescer(
            max_events=options.max_batch_events, linger_s=linger_s
        )
        self._events = 0
        self._bytes = 0
        self._changed = asyncio.Condition()
        # Only the first in line waits for room, so nobody overtakes.
        self._entry = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._unconfirmed: list[Receipt] = []

    async def create(self, run_id: str, event: Event) -> Receipt:
        """Write one event, together with others that are given about now.

        A cancelled call takes its event back if it has not been sent; if it has, the event goes on.

        Raises:
            InvalidEventError: the event cannot be sent; nothing was.
            EventClientError: as `EventClient.create` raises; `.receipts` holds this event's receipt.
        """
        segment(run_id, "run_id")
        size = self._size(run_id, event)
        async with self._entry, self._changed:
            await self._changed.wait_for(lambda: self._closing or self._fits(size))
            if self._closing:
                raise _refusal(run_id, event)
            self._events += 1
            self._bytes += size
        loop = asyncio.get_running_loop()
        ticket = _Ticket(run_id, event, size, loop.create_future())
        self._coalescer.add(run_id, ticket, loop.time())
        self._arm()
        try:
            return await ticket.future
        except asyncio.CancelledError:
            if self._coalescer.discard(run_id, ticket):
                self._release([ticket])
            raise

    async def flush(self) -> None:
        """Send what waits now, and wait until it is settled. Failures reach those who gave the events."""
        self._coalescer.flush(asyncio.get_running_loop().time())
        self._pump()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def aclose(self, within: float | None = None) -> tuple[Receipt, ...]:
        """Take no more events, send what waits, and wait for it.

        Args:
            within: seconds to let that take; None lets it take as long as the budgets allow. What is then
                still open ends with a `TransportError` for whoever waits for it.

        Returns:
            Receipts of what is not confirmed.
        """
        self._closing = True
        async with self._changed:
            self._changed.notify_all()
        try:
            async with asyncio.timeout(within):
                await self.flush()
        except TimeoutError:
            for ticket in self._coalescer.drain():
                self._settle(ticket, unsent(ticket.run_id, 0, ticket.event), None)
            for task in self._tasks:
                task.cancel()
            while self._tasks:
                await asyncio.wait(set(self._tasks))
        left, self._unconfirmed = tuple(self._unconfirmed), []
        return left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _size(self, run_id: str, event: Event) -> int:
        check_event(event, 0, run_id)
        try:
            encoded = encode_event(event, now=self._options.clock.wall(), batch=True)
        except InvalidEventError as error:
            error.run_id = run_id
            raise
        size = encoded.batch_frame_bytes()
        if size > self._options.max_batch_bytes:
            raise InvalidEventError(
                f"it takes {size} bytes; one request carries {self._options.max_batch_bytes}",
                field="eventData",
                run_id=run_id,
            )
        return size

    def _fits(self, size: int) -> bool:
        # An event larger than the whole room still goes when nothing else is there.
        room = self._events < self._max_events and self._bytes + size <= self._max_bytes
        return room or self._events == 0

    def _arm(self) -> None:
        due = self._coalescer.get_timer()
        if due is not None and (self._timer is None or due < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            # Even what is due now waits for the loop's next turn: writes of one turn go together.
            self._timer = asyncio.get_running_loop().call_at(due, self._pump)

    def _pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        for run_id, tickets in self._coalescer.handle_timer(loop.time()):
            task = loop.create_task(self._send(run_id, tickets))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._arm()

    async def _send(self, run_id: str, tickets: list[_Ticket]) -> None:
        error: EventClientError | None = None
        receipts: Iterable[Receipt]
        try:
            receipts = await self._client.create_batch(run_id, [ticket.event for ticket in tickets])
        except EventClientError as failure:
            error, receipts = failure, failure.receipts
        except asyncio.CancelledError as cancelled:
            receipts = getattr(cancelled, "receipts", ())
        known = list(receipts) or [unsent(run_id, 0, ticket.event) for ticket in tickets]
        for ticket, receipt in zip(tickets, known, strict=True):
            self._settle(ticket, receipt, error)
        self._coalescer.done(run_id, asyncio.get_running_loop().time())
        self._pump()
        async with self._changed:
            self._changed.notify_all()

    def _settle(self, ticket: _Ticket, receipt: Receipt, error: EventClientError | None) -> None:
        self._events -= 1
        self._bytes -= ticket.size
        if receipt.outcome in (Outcome.UNKNOWN, Outcome.UNSENT):
            self._unconfirmed.append(receipt)
        if ticket.future.done():
            return
        if receipt.outcome is not Outcome.CONFLICT and receipt.outcome not in FAILURES:
            ticket.future.set_result(receipt)
        elif error is not None and receipt.outcome in (Outcome.UNKNOWN, Outcome.UNSENT):
            own = copy.copy(error)
            own.receipts = (receipt,)
            ticket.future.set_exception(own)
        else:
            ticket.future.set_exception(receipt.error())

    def _release(self, tickets: list[_Ticket]) -> None:
        for ticket in tickets:
            self._events -= 1
            self._bytes -= ticket.size


def _refusal(run_id: str, event: Event) -> TransportError:
    error = TransportError("the writer is closed: nothing was sent", ambiguous=False, run_id=run_id)
    error.receipts = (unsent(run_id, 0, event),)
    return error
