"""Reading logs: pages, whole logs, single events. A log that stops early is never taken for complete.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (queries, resuming, the progress rule).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from eventclient.errors import InvalidEventError, ProtocolError, TransportError
from eventclient.model.entities import StoredEvent
from eventclient.model.results import Log
from eventclient.telemetry.ledger import LedgerBook
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.logs import LogDecoder, LogEnd, decode_event_body
from eventclient.wire.params import ResolveData

from .endpoint import Endpoint, segment
from .options import ClientOptions
from .sender import Delivery, Sender
from .transport import Answer, Request
from .verdict import Failure

SortOrder = Literal["asc", "desc"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is asked of a LIST.

    Attributes:
        limit: most events in a page; None asks for everything at once.
        cursor: where to start; ``eid:<event id>`` is strictly behind that event.
        correlation_id: only events with this id.
    """

    run_id: str
    limit: int | None = None
    cursor: str | None = None
    sort_order: SortOrder | None = None
    resolve_data: ResolveData | None = None
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        segment(self.run_id, "run_id")
        if self.limit is not None and self.limit < 1:
            raise InvalidEventError("must be at least 1", field="limit", run_id=self.run_id)
        if self.sort_order not in (None, "asc", "desc"):
            raise InvalidEventError('must be "asc" or "desc"', field="sort_order", run_id=self.run_id)

    @property
    def resumable(self) -> bool:
        """Whether a listing that breaks off can go on behind its last event."""
        return self.limit is None and self.correlation_id is None and self.sort_order != "desc"

    def query(self, cursor: str | None) -> dict[str, str]:
        """The query string's pairs, in the order the reference sends them."""
        query: dict[str, str] = {}
        if self.correlation_id is not None:
            query |= {"correlationId": self.correlation_id, "runId": self.run_id}
        elif self.limit is None:
            query["returnAll"] = "true"
        if cursor:
            query["cursor"] = cursor
        if self.limit is not None:
            query["limit"] = str(self.limit)
        if self.sort_order is not None:
            query["sortOrder"] = self.sort_order
        query["remoteRefBehavior"] = "lazy" if self.resolve_data == "none" else "resolve"
        return query


@dataclass(frozen=True, slots=True)
class _Part:
    """What one answer to a LIST held; `end` is None when it broke off."""

    events: list[StoredEvent]
    end: LogEnd | None


class LogReader:
    """Reads logs for a client."""

    def __init__(self, sender: Sender, endpoint: Endpoint, options: ClientOptions) -> None:
        self._sender = sender
        self._endpoint = endpoint
        self._clock = options.clock

    async def pages(self, listing: Listing, book: LedgerBook | None = None) -> AsyncIterator[Log]:
        """The pages of `listing`, each complete; every event once. `book` is where they are accounted.

        Raises:
            TransportError: the log broke off and could not be read on.
            ProtocolError: the server answered something else than a log, or its cursor stands still.
            RejectedError: the server refused.
        """
        book = book or LedgerBook(self._clock.now)
        cursor, seen = listing.cursor, set[str]()
        while True:
            page = await self._page(listing, cursor, book)
            # One page may hold an event twice: it was read on after a cut, and the server began anew.
            fresh = {event.event_id: event for event in page.events if event.event_id not in seen}
            if page.has_more and (not fresh or page.cursor in (None, cursor)):
                raise ProtocolError(
                    "the listing does not move: the server says there is more and sends nothing new",
                    run_id=listing.run_id,
                )
            seen.update(fresh)
            yield Log(tuple(fresh.values()), page.cursor, page.has_more)
            if not page.has_more:
                return
            cursor = page.cursor

    async def _page(self, listing: Listing, cursor: str | None, book: LedgerBook) -> Log:
        events: list[StoredEvent] = []
        at, resumes = cursor, 0
        while True:
            part = await self._part(listing, at, book)
            events += part.events
            if part.end is not None:
                end = part.end
                unmoved = end.next is None or end.next == at
                if (part.events or end.has_more) and unmoved and listing.correlation_id is None:
                    raise ProtocolError("the listing did not advance its cursor", run_id=listing.run_id)
                return Log(tuple(events), end.next or at, end.has_more)
            last = spec.CURSOR_EVENT_PREFIX + events[-1].event_id if events else None
            if not listing.resumable or last in (None, at) or resumes == spec.MAX_LIST_RESUMES:
                raise TransportError(
                    f"the log broke off after {len(events)} events"
                    + (f", and again after {resumes} resumes" if resumes else ""),
                    ambiguous=False,
                    run_id=listing.run_id,
                )
            at, resumes = last, resumes + 1

    async def _part(self, listing: Listing, cursor: str | None, book: LedgerBook) -> _Part:
        def read(answer: Answer) -> _Part:
            decoder = LogDecoder()
            _check_framed(answer)
            events = decoder.receive_data(answer.body)
            decoder.receive_eof()
            if decoder.end is None and answer.cut and not (events and listing.resumable):
                raise MalformedError(answer.cut)
            if listing.correlation_id is not None:
                events = [event for event in events if event.run_id == listing.run_id]
            return _Part(events, decoder.end)

        if listing.correlation_id is None:
            path = spec.RUNS_PATH.format(run_id=segment(listing.run_id, "run_id"))
        else:
            path = spec.EVENTS_PATH
        request = self._request("list of events", path, listing.query(cursor), partial=True)
        return await self._get(request, read, listing.run_id, book)

    async def event(self, run_id: str, event_id: str, resolve_data: ResolveData | None) -> StoredEvent:
        """One event.

        Raises:
            ProtocolError: the answer holds no whole event.
            NotFoundError: there is no such event.
        """

        def read(answer: Answer) -> StoredEvent:
            _check_framed(answer)
            return decode_event_body(answer.body)

        path = spec.RUNS_PATH.format(run_id=segment(run_id, "run_id")) + "/" + segment(event_id, "event_id")
        query = {"remoteRefBehavior": "lazy" if resolve_data == "none" else "resolve"}
        request = self._request("read of an event", path, query, partial=False)
        return await self._get(request, read, run_id, LedgerBook(self._clock.now))

    def _request(self, label: str, path: str, query: Mapping[str, str], *, partial: bool) -> Request:
        headers = {
            **self._endpoint.headers,
            "Accept": "*/*",
            spec.HEADER_REQUEST_TIME: str(int(self._clock.wall().timestamp() * 1000)),
        }
        return Request("GET", self._endpoint.url(path, query), label, headers, partial=partial)

    async def _get(self, request: Request, read: Callable[[Answer], T], run_id: str, book: LedgerBook) -> T:
        end = await self._sender.send(
            request,
            read,
            delivery=Delivery(),
            purse=self._sender.purse(),
            book=book,
            run_id=run_id,
            is_read=True,
        )
        if isinstance(end, Failure):
            raise end.error
        return end.value


def _check_framed(answer: Answer) -> None:
    if answer.status == 206:
        # Its first events may be missing, and nothing in it would say so.
        raise ProtocolError("the answer is a part of the log that nobody asked for")
    if not answer.headers.get("Content-Type", "").startswith(spec.FRAMES_CONTENT_TYPE):
        raise ProtocolError("the answer is no framed log: is this the address of an event server?")
