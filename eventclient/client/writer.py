"""`EventWriter`: single writes from many tasks, sent in batches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, cast

from eventclient.batching.coalescer import Coalescer
from eventclient.errors import ConfigurationError, EventClientError, InvalidEventError, TransportError
from eventclient.model.events import Event
from eventclient.model.outcomes import FAILURES, BatchResult, Outcome, Receipt
from eventclient.model.results import Result
from eventclient.wire.requests import EncodedEvent

from .encoding import encode_for_batch
from .endpoint import segment
from .options import ClientOptions
from .receipts import unsent


class SendEncoded(Protocol):
    """What a writer needs of a client: to write events that are encoded already."""

    async def __call__(
        self, run_id: str, events: Sequence[Event], encoded: Sequence[EncodedEvent]
    ) -> BatchResult: ...


@dataclass(slots=True, eq=False)
class _Ticket:
    """One event on its way, and the caller who waits for it."""

    run_id: str
    event: Event
    encoded: EncodedEvent
    size: int
    future: asyncio.Future[Receipt]
    admitted: bool = False


class EventWriter:
    """Coalesces concurrent single writes into batches. Made by `EventClient.writer`.

    Events of one run are sent in the order they were given. While a batch of a run is under way, what is
    given meanwhile gathers for the next one. The queue is bounded: a full one makes `create` wait.
    """

    def __init__(
        self,
        send: SendEncoded,
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
        self._write = send
        self._options = options
        self._max_events = max_pending_events
        self._max_bytes = max_pending_bytes
        self._coalescer: Coalescer[_Ticket] = Coalescer(
            max_events=options.max_batch_events, linger_s=linger_s
        )
        self._events = 0
        self._bytes = 0
        self._changed = asyncio.Event()
        # Only the first in line waits for room, so nobody overtakes.
        self._entry = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unbegun: dict[asyncio.Task[None], list[_Ticket]] = {}
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
        encoded = self._encode(run_id, event)
        size = encoded.batch_frame_bytes()
        loop = asyncio.get_running_loop()
        ticket = _Ticket(run_id, event, encoded, size, loop.create_future())
        try:
            await self._admit(ticket)
            return await ticket.future
        except asyncio.CancelledError as error:
            vars(error)["receipts"] = (self._take_back(ticket),)
            raise

    async def _admit(self, ticket: _Ticket) -> None:
        """Wait for room, in the order of asking, and queue `ticket`."""
        async with self._entry:
            while not self._closing and not self._fits(ticket.size):
                self._changed.clear()
                await self._changed.wait()
            if self._closing:
                raise _refusal(ticket.run_id, ticket.event)
            self._events += 1
            self._bytes += ticket.size
            ticket.admitted = True
            self._coalescer.add(ticket.run_id, ticket, asyncio.get_running_loop().time())
            self._arm()

    def _take_back(self, ticket: _Ticket) -> Receipt:
        """The receipt of an event whose caller was cancelled; it is taken out if it has not been sent."""
        if ticket.admitted and not self._coalescer.discard(ticket.run_id, ticket):
            # It is on its way. Should it not be settled in the end, closing tells.
            told = Result(None, None, "the caller stopped waiting while it was on its way")
            return Receipt(0, ticket.event, Outcome.UNKNOWN, told, run_id=ticket.run_id)
        if ticket.admitted:
            self._release(ticket)
        return unsent(ticket.run_id, 0, ticket.event)

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
        self._changed.set()
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

    def _encode(self, run_id: str, event: Event) -> EncodedEvent:
        """The event's bytes, taken when it is given: what happens to it afterwards changes nothing."""
        try:
            encoded = encode_for_batch(event, self._options.clock.wall())
            size = encoded.batch_frame_bytes()
            if size > self._options.max_batch_bytes:
                raise InvalidEventError(
                    f"it takes {size} bytes; one request carries {self._options.max_batch_bytes}",
                    field="eventData",
                )
        except InvalidEventError as error:
            error.run_id, error.event_index = run_id, 0
            error.receipts = (unsent(run_id, 0, event),)
            raise
        return encoded

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
            self._unbegun[task] = tickets
            task.add_done_callback(self._ended)
        self._arm()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # One that was cancelled before its first step has not come as far as its own clearing up.
        tickets = self._unbegun.pop(task, [])
        for ticket in tickets:
            self._settle(ticket, unsent(ticket.run_id, 0, ticket.event), None)
        if tickets:
            self._coalescer.done(tickets[0].run_id, asyncio.get_running_loop().time())

    async def _send(self, run_id: str, tickets: list[_Ticket]) -> None:
        self._unbegun.pop(cast(asyncio.Task[None], asyncio.current_task()), None)
        try:
            while tickets:
                tickets = await self._send_some(run_id, tickets)
        finally:
            # Nobody is left waiting, whatever ended this.
            told = Result(None, None, "the write ended unexpectedly")
            for ticket in tickets:
                self._settle(ticket, Receipt(0, ticket.event, Outcome.UNKNOWN, told, run_id=run_id), None)
            self._coalescer.done(run_id, asyncio.get_running_loop().time())
            self._pump()

    async def _send_some(self, run_id: str, tickets: list[_Ticket]) -> list[_Ticket]:
        """Send `tickets` and settle them. Returns those that are to be sent again, without a culprit."""
        error: EventClientError | None = None
        receipts: Sequence[Receipt] = ()
        try:
            receipts = await self._write(
                run_id, [ticket.event for ticket in tickets], [ticket.encoded for ticket in tickets]
            )
        except InvalidEventError as failure:
            return self._without_culprit(tickets, failure)
        except EventClientError as failure:
            error, receipts = failure, failure.receipts
        except asyncio.CancelledError as cancelled:
            receipts = getattr(cancelled, "receipts", ())
        known = list(receipts) or [unsent(run_id, 0, ticket.event) for ticket in tickets]
        for ticket, receipt in zip(tickets, known, strict=True):
            self._settle(ticket, receipt, error)
        return []

    def _without_culprit(self, tickets: list[_Ticket], error: InvalidEventError) -> list[_Ticket]:
        """Settle the pair that is too large together; the others go on without it."""
        at = error.event_index or 0
        for ticket in tickets[at : at + 2]:
            self._settle(ticket, unsent(ticket.run_id, 0, ticket.event), error)
        return tickets[:at] + tickets[at + 2 :]

    def _settle(self, ticket: _Ticket, receipt: Receipt, error: EventClientError | None) -> None:
        self._release(ticket)
        open_end = receipt.outcome in (Outcome.UNKNOWN, Outcome.UNSENT)
        if ticket.future.done():
            if open_end:
                self._unconfirmed.append(receipt)
            return
        if receipt.outcome not in FAILURES and (
            receipt.outcome is not Outcome.CONFLICT or receipt.status == 200
        ):
            ticket.future.set_result(receipt)
        elif error is not None and open_end:
            own = copy.copy(error)
            own.__context__ = error.__context__
            own.receipts = (receipt,)
            ticket.future.set_exception(own)
        else:
            ticket.future.set_exception(receipt.error())
        if open_end and self._closing:
            self._unconfirmed.append(receipt)

    def _release(self, ticket: _Ticket) -> None:
        self._events -= 1
        self._bytes -= ticket.size
        self._changed.set()


def _refusal(run_id: str, event: Event) -> TransportError:
    error = TransportError("the writer is closed: nothing was sent", ambiguous=False, run_id=run_id)
    error.receipts = (unsent(run_id, 0, event),)
    return error
