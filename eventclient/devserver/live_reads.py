"""Reads of streams that are still being written: each lasts until its stream, reader or server ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from .notices import POLL_S, Listener, Notices
from .store import Store, StoreUnavailableError, StreamQuery


class LiveReads:
    """The live reads under way.

    Args:
        store: opened.
        notices: where writes to streams are told of, under `subject_of`.
    """

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self._notices = notices
        self._readers: dict[asyncio.BaseTransport, Listener] = {}
        self._ended = False

    async def follow(self, query: StreamQuery, request: web.Request, response: web.StreamResponse) -> None:
        """Write the chunks of a stream into a prepared response, those still to come among them.

        Returns when the stream is closed and all of it is written, or when the reader is gone. Holds no
        more than one read of `query`, whose `limit` bounds it, however slow the reader is.
        """
        transport = request.transport
        if transport is None:
            return
        with self._notices.listen(subject_of(query.run_id, query.name)) as listener:
            self._readers[transport] = listener
            try:
                if not self._ended:
                    await self._copy(query, transport, response, listener)
                else:
                    _break(transport)
            except (ConnectionError, StoreUnavailableError):
                # The reader has gone in the middle of a write, or the database in the middle of a read:
                # neither is the end of the stream.
                transport.close()
            finally:
                del self._readers[transport]

    async def _copy(
        self,
        query: StreamQuery,
        transport: asyncio.BaseTransport,
        response: web.StreamResponse,
        listener: Listener,
    ) -> None:
        seen_count = 0
        while not transport.is_closing():
            part = await self._store.read_stream(query)
            if part.chunk_count < seen_count:
                # The chunks went with the other payloads of the run: the stream did not end here.
                _break(transport)
                return
            seen_count = part.chunk_count
            for chunk in part.chunks:
                if chunk:
                    await response.write(chunk)
            position = part.start + len(part.chunks)
            if part.closed and position >= part.chunk_count:
                return
            query = replace(query, start=position)
            # A wait that lasts no time lets others run: neither read nor write need ever wait.
            await listener.wait(0 if position < part.chunk_count else POLL_S)

    async def end(self, _app: web.Application) -> None:
        """Break off all live reads, and those that begin after this. No stream is closed by it, so none
        may look as if it were: a reader that sees a clean end does not come back."""
        self._ended = True
        for transport, listener in self._readers.items():
            _break(transport)
            listener.hear()


def subject_of(run_id: str, name: str) -> str:
    """What is told when the stream grows or ends."""
    return f"stream {run_id}/{name}"


def _break(transport: asyncio.BaseTransport) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    else:
        transport.close()
