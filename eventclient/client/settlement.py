"""Whose write a 409 met, where the server keeps no keys: one look at the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from eventclient.errors import EventClientError
from eventclient.model.entities import StoredEvent
from eventclient.model.outcomes import Outcome, Receipt
from eventclient.model.results import Result
from eventclient.policy.read_back import Finding, Likeness, Sent, find
from eventclient.telemetry.ledger import LedgerBook
from eventclient.wire.frames import decode_frames
from eventclient.wire.posted import decode_event

from .options import ClientOptions
from .reads import Listing, LogReader

logger: Final = logging.getLogger("eventclient")

_OUTCOMES: Final[Mapping[Likeness, Outcome]] = {
    Likeness.SAME: Outcome.ALREADY_APPLIED,
    Likeness.OTHER: Outcome.CONFLICT,
    Likeness.UNTOLD: Outcome.UNKNOWN,
}


def is_open(receipt: Receipt) -> bool:
    """Whether `receipt` tells of a 409 that nobody has settled."""
    return receipt.outcome is Outcome.UNKNOWN and receipt.status == 409


class Settlement:
    """Settles 409s behind answers that were lost."""

    def __init__(self, reader: LogReader, options: ClientOptions) -> None:
        self._reader = reader
        self._enabled = options.retry.read_back

    async def settle(
        self, receipts: Sequence[Receipt], frames: Sequence[bytes], book: LedgerBook
    ) -> list[Receipt]:
        """`receipts`, of one request, with those that met a 409 settled as far as the log tells.

        Args:
            receipts: of the request's events.
            frames: the frame each of them went out in.
            book: where the read is accounted.
        """
        if not self._enabled or not any(map(is_open, receipts)):
            return list(receipts)
        sent = [
            _sent(frame) if is_open(receipt) else None
            for receipt, frame in zip(receipts, frames, strict=True)
        ]
        log = await self._read(receipts[0].run_id, [each for each in sent if each is not None], book)
        if log is None:
            return list(receipts)
        return [
            receipt if each is None else _settled(receipt, find(each, log))
            for receipt, each in zip(receipts, sent, strict=True)
        ]

    async def _read(self, run_id: str, sent: Sequence[Sent], book: LedgerBook) -> list[StoredEvent] | None:
        """The part of the log that can hold `sent`, whole; None when it cannot be read."""
        correlated = {each.correlation_id for each in sent}
        listing = Listing(run_id=run_id, correlation_id=correlated.pop() if len(correlated) == 1 else None)
        book.reads += 1
        try:
            events = [event async for page in self._reader.pages(listing, book) for event in page.events]
        except EventClientError as error:
            # The write has its own outcome, which stays open; its caller is told of that.
            logger.info("a 409 of run %s stays open, its log was not read: %s", run_id, error)
            return None
        return [event for event in events if event.run_id == run_id]


def _sent(frame: bytes) -> Sent:
    posted = decode_event(decode_frames(frame)[0])
    return Sent(posted.event_type, posted.correlation_id, posted.occurred_at, posted.body, posted.resume_id)


def _settled(receipt: Receipt, finding: Finding) -> Receipt:
    result = receipt.result
    if finding.stored is not None:
        body = {"event": finding.stored}
        result = Result(result.status, result.code, result.message, body)
    return replace(receipt, outcome=_OUTCOMES[finding.likeness], result=result)
