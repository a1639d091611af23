"""The flow of one `create` call: a single post with everything a caller may say beside it."""

from __future__ import annotations

from eventclient.errors import EventClientError, InvalidEventError, ProtocolError
from eventclient.model.event_specs import payload_field
from eventclient.model.events import Event
from eventclient.model.outcomes import Outcome, Receipt, is_hook_delivery
from eventclient.model.results import Log, Result
from eventclient.policy.classify import FailureClass
from eventclient.policy.eligibility import converges
from eventclient.telemetry.ledger import LedgerBook
from eventclient.wire.codec import MalformedError
from eventclient.wire.params import WriteParams
from eventclient.wire.requests import encode_event

from . import receipts as written
from .encoding import check_event
from .endpoint import Endpoint, segment
from .options import ClientOptions
from .posts import read_streamed_start, single_reader, single_request, started
from .reads import Listing, LogReader
from .sender import Delivery, Sender
from .settlement import Settlement, is_open
from .verdict import Failure, raise_error


class SingleWrite:
    """One `create` call. `receipt` says how things stand, at any moment."""

    def __init__(
        self,
        sender: Sender,
        reader: LogReader,
        settlement: Settlement,
        endpoint: Endpoint,
        options: ClientOptions,
        run_id: str,
        event: Event,
        params: WriteParams,
    ) -> None:
        """Checks and encodes the event.

        Raises:
            InvalidEventError: names the field that cannot be sent.
        """
        self._sender = sender
        self._reader = reader
        self._settlement = settlement
        self._book = LedgerBook(options.clock.now)
        self._endpoint = endpoint
        self._options = options
        self.run_id = run_id
        self._run = segment(run_id, "run_id")
        self._event = event
        self._streamed = getattr(event, "event_type", None) == "run_started" and not params.skip_preload
        self._resume_pair = bool(params.resume_id and params.resume_payload_digest)
        self._delivery = Delivery()
        self._receipt: Receipt | None = None
        try:
            self._body = self._encode(params)
        except InvalidEventError as error:
            error.run_id, error.event_index = run_id, 0
            error.receipts = (self.receipt,)
            raise

    def _encode(self, params: WriteParams) -> bytes:
        check_event(self._event)
        frame = encode_event(self._event, now=self._options.clock.wall(), params=params).single_frame()
        if len(frame) > self._options.max_batch_bytes:
            raise InvalidEventError(
                f"it takes {len(frame)} bytes; one request carries {self._options.max_batch_bytes}"
                " (ClientOptions.max_batch_bytes)",
                field=f"eventData.{payload_field(self._event) or 'changes'}",
            )
        return frame

    @property
    def receipt(self) -> Receipt:
        """The event's receipt; unknown or unsent while nothing is settled."""
        if self._receipt is not None:
            return self._receipt
        if not self._delivery.attempts and not self._delivery.in_flight:
            return written.unsent(self.run_id, 0, self._event)
        return written.abandoned(self.run_id, 0, self._event, "single", self._delivery)

    async def send(self) -> Receipt:
        """Send the event.

        Raises:
            EventClientError: it was refused, or its request failed; `.receipts` holds the receipt and
                `.ledger` what was spent.
        """
        try:
            return await self._send()
        except EventClientError as error:
            error.ledger = self._book.close()
            raise

    async def _send(self) -> Receipt:
        request = single_request(
            self._endpoint,
            self._options,
            self._run,
            self._event.event_type,
            self._body,
            streamed=self._streamed,
        )
        end = await self._sender.send(
            request,
            read_streamed_start if self._streamed else single_reader(self.run_id, self._event),
            delivery=self._delivery,
            purse=self._sender.purse(),
            book=self._book,
            run_id=self.run_id,
            converges=converges(self._event, resume_pair=self._resume_pair),
            hook=is_hook_delivery(self._event),
        )
        if isinstance(end, Failure):
            error = await self._failed(end)
            if error is not None:
                raise_error(error)
            return self.receipt
        result = await self._completed(end.value) if self._streamed else end.value
        self._receipt = written.single_answered(self.run_id, 0, self._event, result, self._delivery)
        return self._receipt

    async def _failed(self, end: Failure) -> EventClientError | None:
        """Make the receipt of a failed post; the error to raise, None if an earlier attempt was our own."""
        receipt = written.failed(self.run_id, 0, self._event, end, "single", self._delivery)
        self._receipt = receipt
        if end.kind is FailureClass.REFUSED and is_open(receipt):
            (receipt,) = await self._settlement.settle([receipt], [self._body], self._book)
            self._receipt = receipt
            if receipt.outcome is Outcome.ALREADY_APPLIED:
                return None
            if receipt.outcome is Outcome.UNKNOWN:
                return receipt.error()
        return end.error

    async def _completed(self, result: Result) -> Result:
        """`result` of a streamed start with the rest of its log, the event and the run in it."""
        # Until the log is there, all that is known is that the server answered with success.
        self._delivery.maybe_landed = True
        log = result.log or Log((), None, True)
        events, cursor = list(log.events), log.cursor
        if log.has_more:
            async for page in self._reader.pages(Listing(run_id=self.run_id, cursor=cursor), self._book):
                events += page.events
                cursor = page.cursor
        try:
            event, run = started(events)
        except MalformedError as error:
            raise ProtocolError(f"post of run_started: {error}", status=200, run_id=self.run_id) from None
        body = {"event": event, "run": run}
        return Result(200, body=body, max_events=result.max_events, log=Log(tuple(events), cursor, False))
