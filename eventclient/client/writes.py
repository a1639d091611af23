"""The flow of one write call: encode, cut into requests, send them, give each event its receipt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from eventclient.batching.chunks import Chunk, plan_chunks, plan_waves
from eventclient.errors import EventClientError, InvalidEventError
from eventclient.model.event_specs import is_pair
from eventclient.model.events import Event
from eventclient.model.outcomes import Attempt, BatchResult, Outcome, Receipt, is_hook_delivery
from eventclient.model.results import Result
from eventclient.policy.classify import FailureClass
from eventclient.policy.eligibility import all_converge, converges
from eventclient.policy.fallback import Fallback, FallbackLatch, fallback_for
from eventclient.telemetry.ledger import LedgerBook
from eventclient.wire import spec
from eventclient.wire.params import WriteParams
from eventclient.wire.requests import EncodedEvent

from . import receipts as written
from .encoding import encode_all
from .endpoint import Endpoint, segment
from .options import ClientOptions
from .posts import batch_reader, batch_request, single_reader, single_request
from .sender import Delivery, Sender
from .settlement import Settlement, is_open
from .verdict import Failure, Success, raise_error

logger: Final = logging.getLogger("eventclient")

_REQUEST_LEVEL: Final = frozenset({401, 403})
"""Refusals that speak of the caller, not of the event: the rest of the call would meet them too."""


class BatchWrite:
    """One `create_batch` call.

    `settled` says at any moment how each event stands, and `book` what was spent on it.
    """

    def __init__(
        self,
        sender: Sender,
        settlement: Settlement,
        endpoint: Endpoint,
        options: ClientOptions,
        latch: FallbackLatch,
        run_id: str,
        events: Sequence[Event],
        params: WriteParams,
        encoded: Sequence[EncodedEvent] | None = None,
    ) -> None:
        """Checks and encodes everything, unless it is `encoded` already.

        Raises:
            InvalidEventError: names the index and the field of the first event that cannot be sent.
        """
        self._sender = sender
        self._settlement = settlement
        self._endpoint = endpoint
        self._options = options
        self._latch = latch
        self.book = LedgerBook(options.clock.now)
        self.run_id = run_id
        self._run = segment(run_id, "run_id")
        self.events = tuple(events)
        self._params = params
        self.receipts: list[Receipt | None] = [None] * len(self.events)
        self._encoded = self._encode() if encoded is None else encoded
        # With the scope "call" every request draws on one purse, else each on its own.
        self._purse = sender.purse() if options.retry.throttle_scope == "call" else None

    def _encode(self) -> list[EncodedEvent]:
        try:
            return encode_all(self.events, self._options.clock.wall(), self._params)
        except InvalidEventError as error:
            error.run_id, error.receipts = self.run_id, self.settled()
            raise

    def plan(self, *, batch: bool) -> list[Chunk]:
        """The requests the events are cut into.

        Raises:
            InvalidEventError: an event is larger than a request may be.
        """
        resolve = self._params.resolve_data
        sizes = [encoded.batch_frame_bytes(resolve) for encoded in self._encoded]
        limits = self._options.limits
        try:
            # Single posts are batches of one, in which no pair has to be kept together.
            return plan_chunks(self.events, sizes, limits if batch else replace(limits, max_events=1))
        except InvalidEventError as error:
            error.run_id = self.run_id
            error.receipts = self.settled()
            raise

    async def send(self, chunks: Sequence[Chunk], concurrency: int) -> BatchResult:
        """Send `chunks`; each event is settled when its request is.

        Raises:
            EventClientError: a request failed as a whole; `.receipts` has every event's outcome.
        """
        try:
            await self._send_waves(plan_waves(chunks, self.events, concurrency))
        except EventClientError as error:
            error.ledger = self.book.close()
            raise
        # Without an error every event has its receipt.
        return BatchResult(self.run_id, cast(list[Receipt], self.receipts), self.book.close())

    async def _send_waves(self, waves: Sequence[Sequence[Chunk]]) -> None:
        for number, wave in enumerate(waves):
            for chunk in waves[number - 1] if number else ():
                self._stop_behind_unknown(chunk.start, chunk.stop)
            if len(wave) == 1:
                await self._send_chunk(wave[0])
                continue
            # No sibling is cut short by another's failure: what is under way is settled first.
            tasks = [asyncio.ensure_future(self._send_chunk(chunk)) for chunk in wave]
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                if isinstance(end, EventClientError):
                    raise_error(end)
                if isinstance(end, BaseException):
                    raise end

    def _stop_behind_unknown(self, start: int, stop: int) -> None:
        """Send nothing behind an event that may yet land: it would come to stand behind what is sent now.

        Raises:
            TransportError: there is such an event from `start` to `stop`.
        """
        for receipt in self.receipts[start:stop]:
            if receipt is not None and receipt.outcome is Outcome.UNKNOWN:
                raise receipt.error()

    def settled(self) -> tuple[Receipt, ...]:
        """Receipts of all events as things stand; what was not sent says so."""
        return written.completed(self.run_id, self.events, self.receipts)

    async def _send_chunk(self, chunk: Chunk) -> None:
        if chunk.batch and not self._latch.holds(self.run_id, self._options.clock.now()):
            await self._send_batch(chunk)
        else:
            await self._send_singles(chunk)

    async def _send_batch(self, chunk: Chunk) -> None:
        events = self.events[chunk.start : chunk.stop]
        resolve = self._params.resolve_data
        encoded = self._encoded[chunk.start : chunk.stop]
        body = b"".join([item.batch_frame(resolve) for item in encoded])
        delivery = Delivery()
        end: Success[list[Result]] | Failure | None = None
        try:
            end = await self._sender.send(
                batch_request(self._endpoint, self._options, self._run, body, len(events)),
                batch_reader(self.run_id, events),
                delivery=delivery,
                purse=self._purse or self._sender.purse(),
                book=self.book,
                run_id=self.run_id,
                converges=all_converge(events),
            )
        finally:
            if end is None:
                for index, event in enumerate(events, chunk.start):
                    self.receipts[index] = written.abandoned(self.run_id, index, event, "batch", delivery)
        if isinstance(end, Success):
            self.receipts[chunk.start : chunk.stop] = written.batch_answered(
                self.run_id, chunk.start, events, end.value, delivery
            )
            if delivery.doubtful:
                await self._settle(chunk.start, chunk.stop)
            return
        if await self._fell_back(chunk, end, delivery):
            return
        for index, event in enumerate(events, chunk.start):
            self.receipts[index] = written.failed(self.run_id, index, event, end, "batch", delivery)
        error = end.error
        if end.kind is FailureClass.REFUSED and delivery.doubtful and end.status == 409:
            settled = await self._settle(chunk.start, chunk.stop)
            error = next((receipt.error() for receipt in settled if is_open(receipt)), error)
            if all(receipt.outcome is Outcome.ALREADY_APPLIED for receipt in settled):
                return
        raise_error(error)

    async def _settle(self, start: int, stop: int) -> list[Receipt]:
        """Settle the 409s among the receipts of one request."""
        held = cast(list[Receipt], self.receipts[start:stop])
        # The frame of a single post says the same as that of a batch, but for what its answer should hold.
        frames = [encoded.batch_frame() for encoded in self._encoded[start:stop]]
        settled = await self._settlement.settle(held, frames, self.book)
        self.receipts[start:stop] = settled
        return settled

    async def _fell_back(self, chunk: Chunk, failure: Failure, delivery: Delivery) -> bool:
        """Whether a refusal of the batch route was answered by sending single posts."""
        # After an ambiguous attempt the batch may be in the log, unless the answer speaks for that one, too.
        if failure.kind is not FailureClass.REFUSED or failure.status is None or delivery.doubtful:
            return False
        fallback = fallback_for(
            failure.status, failure.code, latching_code=spec.CODE_BATCH_REQUIRES_SLOT_IDENTITY
        )
        if fallback is Fallback.NONE:
            return False
        self.book.fallbacks += 1
        refused_with = failure.status if fallback is Fallback.LATCH else None
        await self._send_singles(chunk, refused_with=refused_with, tried=delivery.attempts)
        return True

    async def _send_singles(
        self, chunk: Chunk, *, refused_with: int | None = None, tried: Sequence[Attempt] = ()
    ) -> None:
        """Send the events of `chunk` one by one; `tried` are the attempts that carried them together."""
        for index in range(chunk.start, chunk.stop):
            if index > chunk.start:
                self._stop_behind_unknown(index - 1, index)
            if self._claim_is_lost(index):
                continue
            receipt = await self._send_single(index, tried)
            # A single post that meets the very 404 or 405 the batch met tells nothing about the batch route.
            alike = receipt.status == refused_with and refused_with in (404, 405)
            if refused_with is not None and not alike:
                self._remember(refused_with)
                refused_with = None

    def _remember(self, status: int) -> None:
        now = self._options.clock.now()
        # Of several requests that fly together the first to know speaks for all.
        if not self._latch.holds(self.run_id, now):
            self._latch.set(self.run_id, now)
            logger.warning(
                "the batch route answered %d for run %s: its events go as single posts from now on",
                status,
                self.run_id,
            )

    def _claim_is_lost(self, index: int) -> bool:
        """Whether the event starts a step whose create, right before it, is not ours or may not be.

        The batch route takes or refuses such a pair as one. Sent by itself the start would begin a step that
        somebody else has claimed, so it is not sent; its receipt tells what its create met.
        """
        create = self.receipts[index - 1] if index else None
        if create is None or create.outcome not in (Outcome.CONFLICT, Outcome.UNKNOWN):
            return False
        if not is_pair(self.events[index - 1], self.events[index]):
            return False
        self.receipts[index] = written.not_started(self.run_id, index, self.events[index], create)
        return True

    async def _send_single(self, index: int, tried: Sequence[Attempt]) -> Receipt:
        event = self.events[index]
        delivery = Delivery([*tried])
        end: Success[Result] | Failure | None = None
        try:
            end = await self._sender.send(
                single_request(
                    self._endpoint,
                    self._options,
                    self._run,
                    event.event_type,
                    self._encoded[index].single_frame(),
                    streamed=False,
                ),
                single_reader(self.run_id, event),
                delivery=delivery,
                purse=self._purse or self._sender.purse(),
                book=self.book,
                run_id=self.run_id,
                converges=converges(event),
                hook=is_hook_delivery(event),
            )
        finally:
            if end is None:
                self.receipts[index] = written.abandoned(self.run_id, index, event, "single", delivery)
        if isinstance(end, Success):
            receipt = written.single_answered(self.run_id, index, event, end.value, delivery)
        else:
            receipt = written.failed(self.run_id, index, event, end, "single", delivery)
        self.receipts[index] = receipt
        if isinstance(end, Failure):
            end.error.event_index = index
            if end.kind is not FailureClass.REFUSED or end.status in _REQUEST_LEVEL:
                raise_error(end.error)
            if delivery.doubtful:
                await self._settle(index, index + 1)
        return cast(Receipt, self.receipts[index])
