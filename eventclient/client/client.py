"""`EventClient`: the library's front."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakSet

import aiohttp

from eventclient.errors import ConfigurationError
from eventclient.model.entities import StoredEvent
from eventclient.model.events import Event
from eventclient.model.outcomes import BatchResult, Receipt
from eventclient.model.results import Log
from eventclient.policy.fallback import FallbackLatch
from eventclient.telemetry.ledger import Phase
from eventclient.wire.params import NO_PARAMS, ResolveData, WriteParams
from eventclient.wire.requests import EncodedEvent

from . import environment
from .calls import Calls
from .creation import SingleWrite
from .endpoint import Endpoint, direct_endpoint, project_endpoint
from .options import ClientOptions
from .reads import Listing, LogReader, SortOrder
from .sender import Sender
from .settlement import Settlement
from .support import KeySupport
from .transport import AiohttpTransport, Transport
from .turns import Turns
from .writer import EventWriter
from .writes import BatchWrite

logger: Final = logging.getLogger("eventclient")


class EventClient:
    """Writes and reads workflow events.

    Use it as an async context manager, or call `aclose`. One client serves any number of runs and tasks
    of one event loop.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        """
        Args:
            base_url: the server's origin, such as ``http://127.0.0.1:4437``; ``/api`` is appended. None
                takes the environment variable VERCEL_WORKFLOW_SERVER_URL.
            token: sent as a bearer token; never shown.
            headers: sent with every request.
            session: an aiohttp session to use; it is never closed here.
            options: see `ClientOptions`.

        Raises:
            ConfigurationError: says what is wrong and how to mend it.
        """
        options = options if options is not None else ClientOptions()
        endpoint = direct_endpoint(
            base_url, token=token, headers=headers, allow_plain_http=options.allow_plain_http
        )
        self._start(endpoint, AiohttpTransport(options, session), options)

    @classmethod
    def over(
        cls,
        transport: Transport,
        base_url: str = "http://127.0.0.1",
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        options: ClientOptions | None = None,
    ) -> Self:
        """A client whose requests go over `transport`.

        The time and the chance of writes and reads come from `options.clock` and `options.mint_key`, so that
        a transport, a clock and a key maker of one's own make them repeatable. Writers that linger and
        closing within a time go by the event loop's clock.

        Args:
            transport: sends a request once; see `eventclient.client.transport.Transport`. The client closes
                it when it is closed itself.
            base_url: the origin the requests are addressed to.
            token, headers, options: as for a client made directly.

        Raises:
            ConfigurationError: the address or the headers cannot be used.
        """
        options = options if options is not None else ClientOptions()
        endpoint = direct_endpoint(
            base_url, token=token, headers=headers, allow_plain_http=options.allow_plain_http
        )
        client = cls.__new__(cls)
        client._start(endpoint, transport, options)
        return client

    @classmethod
    def from_environment(
        cls,
        *,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        options: ClientOptions | None = None,
    ) -> Self:
        """A client as the environment describes it: the platform's proxy when project and team are set.

        Reads WORKFLOW_VERCEL_PROJECT, WORKFLOW_VERCEL_TEAM, WORKFLOW_VERCEL_ENV, WORKFLOW_VERCEL_AUTH_TOKEN,
        WORKFLOW_VERCEL_BACKEND_URL, VERCEL_WORKFLOW_SERVER_URL, VERCEL_OIDC_TOKEN, VERCEL_DEPLOYMENT_ID.

        Raises:
            ConfigurationError: the proxy has no token, or an address cannot be used.
        """
        options = options if options is not None else ClientOptions()
        config = environment.read_project_config()
        endpoint = project_endpoint(config, headers=headers, allow_plain_http=options.allow_plain_http)
        client = cls.__new__(cls)
        client._start(endpoint, AiohttpTransport(options, session), options)
        return client

    def _start(self, endpoint: Endpoint, transport: Transport, options: ClientOptions) -> None:
        self._endpoint = endpoint
        self._options = options
        self._transport = transport
        self._sender = Sender(transport, options, KeySupport())
        self._reader = LogReader(self._sender, endpoint, options)
        self._settlement = Settlement(self._reader, options)
        self._latch = FallbackLatch()
        self._turns = Turns()
        self._calls = Calls()
        self._writers: WeakSet[EventWriter] = WeakSet()

    def __repr__(self) -> str:
        return f"<EventClient {self._endpoint.base_url}>"

    # -- writing -------------------------------------------------------------------------------

    async def create(
        self,
        run_id: str,
        event: Event,
        *,
        request_id: str | None = None,
        resolve_data: ResolveData | None = None,
        event_count: int | None = None,
        since_cursor: str | None = None,
        resume_id: str | None = None,
        resume_payload_digest: str | None = None,
        skip_preload: bool = False,
        via_step_dispatch: bool = False,
        replay_divergence_count: int | None = None,
    ) -> Receipt:
        """Write one event with one post.

        A ``run_started`` brings the whole log in `Receipt.log`, unless `skip_preload`.

        Args:
            run_id: the run.
            event: what `parse_event` made.
            request_id: the caller's own request, ``vercelId``.
            resolve_data: accepted as the reference does; a single post is not changed by it.
            event_count: the highest slot the caller has loaded; the answer then reports skipped slots.
            since_cursor: ask for the part of the log behind this cursor.
            resume_id, resume_payload_digest: both make a ``hook_received`` safe to send again.
            skip_preload: do not ask for the log.
            via_step_dispatch: a queue consumer makes sure that the step exists.
            replay_divergence_count: telemetry after a recovery.

        Raises:
            InvalidEventError: the event cannot be sent; nothing was.
            RejectedError: the server refused; a 409 is a `ConflictError`. One behind a lost answer that turns
                out to be our own write's is no error: the receipt is ``already_applied``.
            ThrottleError, TransportError, ProtocolError, FirewallChallengeError, ConfigurationError:
                `.receipts` says whether the event may have been stored.
        """
        params = WriteParams(
            request_id=request_id,
            resolve_data=resolve_data,
            event_count=event_count,
            since_cursor=since_cursor,
            resume_id=resume_id,
            resume_payload_digest=resume_payload_digest,
            skip_preload=skip_preload,
            via_step_dispatch=via_step_dispatch,
            replay_divergence_count=replay_divergence_count,
        )
        write = SingleWrite(
            self._sender,
            self._reader,
            self._settlement,
            self._endpoint,
            self._options,
            run_id,
            event,
            params,
        )
        with self._calls.call(run_id, lambda: (write.receipt,)):
            return await write.send()

    async def create_batch(
        self,
        run_id: str,
        events: Sequence[Event],
        *,
        concurrency: int = 1,
        request_id: str | None = None,
        resolve_data: ResolveData | None = None,
    ) -> BatchResult:
        """Write events in order, in as few requests as the rules allow.

        Everything is checked before anything is sent. Calls for one run take turns; other runs go on
        meanwhile. Per-event refusals (409 and the like) are in the receipts, not raised.

        Args:
            run_id: the run.
            events: what `parse_event` made, any number; an empty list sends nothing.
            concurrency: how many requests may be under way at once; above 1, requests that change
                different steps and waits fly together, and the call does not wait for its turn.
            request_id: the caller's own request, ``vercelId``.
            resolve_data: ``"all"`` makes the answers hold payloads.

        Raises:
            InvalidEventError: names the index and the field; nothing was sent.
            ThrottleError, TransportError, ProtocolError, FirewallChallengeError, RejectedError,
            ConfigurationError: a request failed as a whole; `.receipts` has one receipt per event.
        """
        if type(concurrency) is not int or concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency!r}: must be a whole number from 1 up")
        params = NO_PARAMS
        if request_id is not None or resolve_data is not None:
            params = WriteParams(request_id=request_id, resolve_data=resolve_data)
        return await self._write(run_id, events, concurrency, params)

    async def _write(
        self,
        run_id: str,
        events: Sequence[Event],
        concurrency: int,
        params: WriteParams,
        encoded: Sequence[EncodedEvent] | None = None,
    ) -> BatchResult:
        """`create_batch`, and the way of a writer, whose events are encoded already."""
        write = BatchWrite(
            self._sender,
            self._settlement,
            self._endpoint,
            self._options,
            self._latch,
            run_id,
            events,
            params,
            encoded,
        )
        if not write.events:
            return BatchResult(run_id, (), write.book.close())
        chunks = write.plan(batch=self._options.batch and environment.batching_enabled())
        # Closing waits for writers to send what they hold, so their calls come late.
        with self._calls.call(run_id, write.settled, late=encoded is not None):
            if concurrency > 1:
                return await write.send(chunks, concurrency)
            write.book.enter(Phase.QUEUED)
            try:
                await self._turns.enter(run_id)
            finally:
                write.book.leave(Phase.QUEUED)
            try:
                return await write.send(chunks, 1)
            finally:
                self._turns.leave(run_id)

    def writer(self, **options: Any) -> EventWriter:
        """A writer that coalesces concurrent single writes into batches; see `EventWriter` for options."""

        async def send(run_id: str, events: Sequence[Event], encoded: Sequence[EncodedEvent]) -> BatchResult:
            return await self._write(run_id, events, 1, NO_PARAMS, encoded)

        writer = EventWriter(send, self._options, **options)
        self._writers.add(writer)
        return writer

    # -- reading -------------------------------------------------------------------------------

    async def get_event(
        self, run_id: str, event_id: str, *, resolve_data: ResolveData | None = None
    ) -> StoredEvent:
        """One stored event.

        Raises:
            NotFoundError: there is none with this id.
            TransportError, ProtocolError, ThrottleError, RejectedError: it could not be read.
        """
        with self._calls.call(run_id, tuple):
            return await self._reader.event(run_id, event_id, resolve_data)

    async def list_events(
        self,
        run_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        sort_order: SortOrder | None = None,
        resolve_data: ResolveData | None = None,
        correlation_id: str | None = None,
    ) -> AsyncGenerator[Log, None]:
        """The pages of a run's log, until there is no more.

        Args:
            run_id: the run.
            limit: most events in a page; None asks for everything in one.
            cursor: where to start; ``eid:<event id>`` is strictly behind that event.
            sort_order: ``"asc"`` (the server's default) or ``"desc"``.
            resolve_data: ``"none"`` leaves payloads out.
            correlation_id: only events with this id.

        Raises:
            TransportError: the log broke off and could not be read on; what came is not taken for all.
            ProtocolError, ThrottleError, RejectedError: it could not be read.
        """
        listing = Listing(
            run_id=run_id,
            limit=limit,
            cursor=cursor,
            sort_order=sort_order,
            resolve_data=resolve_data,
            correlation_id=correlation_id,
        )
        pages = self._reader.pages(listing)
        while True:
            with self._calls.call(run_id, tuple):
                page = await anext(pages, None)
            if page is None:
                return
            yield page

    async def read_log(self, run_id: str, *, resolve_data: ResolveData | None = None) -> list[StoredEvent]:
        """The whole log of a run, in log order, each event once; raises as `list_events` does."""
        events: list[StoredEvent] = []
        async for page in self.list_events(run_id, resolve_data=resolve_data):
            events += page.events
        return events

    # -- closing -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        left = await self.aclose(within=None if kind is None else 0.0)
        if left:
            logger.warning("closed with %d events unconfirmed; aclose() returns their receipts", len(left))

    async def aclose(self, within: float | None = None) -> tuple[Receipt, ...]:
        """Take no more calls, let those under way finish, and close.

        Args:
            within: seconds to let them; None lets them take as long as their own budgets allow. Calls
                still under way then end with a `TransportError`.

        Returns:
            Receipts of the events, of this client's whole life, whose call was cancelled or ended by
            closing before they were settled: ``unknown`` or ``unsent``.
        """
        self._calls.closing = True
        loop = asyncio.get_running_loop()
        deadline = None if within is None else loop.time() + within
        try:
            lefts = await asyncio.gather(*(writer.aclose(within) for writer in tuple(self._writers)))
            await self._calls.finish(deadline)
        finally:
            await self._transport.aclose()
        # A batch cut short has been noted on its way through this client already.
        noted = {id(receipt) for receipt in self._calls.unconfirmed}
        self._calls.keep([receipt for left in lefts for receipt in left if id(receipt) not in noted])
        return self._calls.take_unconfirmed()
