"""Streams: writes, the live read, pages of chunks, what a stream is like, which streams a run has."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from aiohttp import web

from eventclient.devserver.account import account_of
from eventclient.devserver.cursor import CODE_BAD_CURSOR
from eventclient.devserver.live_reads import LiveReads, subject_of
from eventclient.devserver.notices import Notices
from eventclient.devserver.requests import read_number, read_segment, refusal
from eventclient.devserver.responses import refused_response
from eventclient.devserver.store import RunQuery, Store, StreamExpiredError, StreamPart, StreamQuery
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.replies import Refused
from eventclient.wire.stream_chunks import HEADER_STREAM_DONE, HEADER_STREAM_MULTI, decode_chunks

from .route import API_PREFIX, Route

CODE_MALFORMED_CHUNKS: Final = "malformed-chunks"
CODE_STREAM_CLOSED: Final = "stream-closed"
CODE_STREAM_EXPIRED: Final = "stream-expired"
"""Status 410: the payloads of the run are gone."""
DEFAULT_PAGE_CHUNKS: Final = 100
MAX_PAGE_CHUNKS: Final = 1000
"""Source of both: `@workflow/world` 5.0.0-beta.37."""
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page ends behind the chunk that brings it here, whatever limit was asked for."""


class StreamRoutes:
    """Routes of streams. A stream comes to be with the first write to it and needs no run.

    Where the protocol leaves a question open: a stream may be closed again, which changes nothing; an
    empty chunk counts and is not seen by a live read; a chunk that comes with the end is its last.

    Args:
        store: opened.
        notices: is told of every stream that was written to.
        reads: the live reads under way.
    """

    def __init__(self, store: Store, notices: Notices, reads: LiveReads) -> None:
        self._store = store
        self._notices = notices
        self._reads = reads

    def table(self) -> list[Route]:
        """The routes."""
        runs = f"{API_PREFIX}/v2/runs/{{runId}}"
        live = f"{API_PREFIX}/v3/runs/{{runId}}/stream/{{name}}"
        return [
            Route("PUT", f"{runs}/stream/{{name}}", "stream-write", self.write),
            Route("GET", live, "stream-read", self.read),
            Route("GET", f"{runs}/streams", "streams", self.list_names),
            Route("GET", f"{runs}/streams/{{name}}/chunks", "stream-chunks", self.read_chunks),
            Route("GET", f"{runs}/streams/{{name}}/info", "stream-info", self.read_info),
        ]

    async def write(self, request: web.Request) -> web.Response:
        run_id, name = _read_stream(request)
        ends = request.headers.get(HEADER_STREAM_DONE) == "true"
        chunks = await _read_body(request, ends=ends)
        try:
            written = await self._store.write_stream(run_id, name, chunks, close=ends)
        except StreamExpiredError as error:
            return _expired_response(run_id, name, error.expired_at)
        if written:
            self._notices.tell(subject_of(run_id, name))
        elif chunks or not ends:
            return refused_response(Refused(409, CODE_STREAM_CLOSED, f"stream {name} is closed"))
        return web.Response(status=204)

    async def read(self, request: web.Request) -> web.StreamResponse:
        """The bytes of all chunks, those still to come among them. A clean end means that the stream is
        closed; a reader that sees any other has to come back for the rest."""
        run_id, name = _read_stream(request)
        start = read_number(request, "startIndex", 0, least=None)
        expired = await self._expired(run_id, name)
        if expired is not None:
            return expired
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        query = StreamQuery(run_id=run_id, name=name, start=start, limit=1)
        await self._reads.follow(query, request, response)
        return response

    async def read_chunks(self, request: web.Request) -> web.Response:
        run_id, name = _read_stream(request)
        limit = min(read_number(request, "limit", DEFAULT_PAGE_CHUNKS, least=1), MAX_PAGE_CHUNKS)
        start = read_number(request, "cursor", 0, code=CODE_BAD_CURSOR)
        expired = await self._expired(run_id, name)
        if expired is not None:
            return expired
        page = await self._read_page(StreamQuery(run_id=run_id, name=name, start=start, limit=limit))
        position = start + len(page.chunks)
        has_more = position < page.chunk_count
        return _cbor_response(
            {
                "data": [{"index": start + at, "data": chunk} for at, chunk in enumerate(page.chunks)],
                "cursor": str(position) if has_more else None,
                "hasMore": has_more,
                "done": page.closed,
            }
        )

    async def read_info(self, request: web.Request) -> web.Response:
        run_id, name = _read_stream(request)
        expired = await self._expired(run_id, name)
        if expired is not None:
            return expired
        part = await self._store.read_stream(StreamQuery(run_id=run_id, name=name, limit=0))
        return _cbor_response({"tailIndex": part.chunk_count - 1, "done": part.closed})

    async def list_names(self, request: web.Request) -> web.Response:
        run_id = read_segment(request, "runId")
        account_of(request).run_id = run_id
        names = await self._store.list_streams(run_id)
        # The JavaScript client names no type here, and reads nothing but JSON.
        if spec.CBOR_CONTENT_TYPE in request.headers.get("Accept", ""):
            return _cbor_response(names)
        return web.json_response(names)

    async def _read_page(self, query: StreamQuery) -> StreamPart:
        """As many of the chunks asked for as `MAX_PAGE_BYTES` lets in, one at least if there is any."""
        chunks: list[bytes] = []
        size = 0
        while True:
            start = query.start + len(chunks)
            part = await self._store.read_stream(replace(query, start=start, limit=1))
            chunks += part.chunks
            size += sum(map(len, part.chunks))
            if not part.chunks or len(chunks) == query.limit or size >= MAX_PAGE_BYTES:
                return replace(part, start=query.start, chunks=tuple(chunks))

    async def _expired(self, run_id: str, name: str) -> web.Response | None:
        """The refusal of every read once the payloads of the run are gone."""
        runs = await self._store.read_runs(RunQuery(run_id=run_id, limit=1))
        expired_at = runs[0].entity.expired_at if runs else None
        return _expired_response(run_id, name, expired_at) if expired_at is not None else None


def _expired_response(run_id: str, name: str, expired_at: datetime) -> web.Response:
    body = {
        "message": f"stream {name} of run {run_id} has expired",
        "code": CODE_STREAM_EXPIRED,
        # A live read of the JavaScript client looks for the code here.
        "error": CODE_STREAM_EXPIRED,
        "details": {"runId": run_id, "streamId": name, "expiredAt": expired_at.isoformat()},
    }
    return web.json_response(body, status=410)


def _read_stream(request: web.Request) -> tuple[str, str]:
    run_id, name = read_segment(request, "runId"), read_segment(request, "name")
    account_of(request).run_id = run_id
    return run_id, name


async def _read_body(request: web.Request, *, ends: bool) -> list[bytes]:
    body = await request.read()
    if request.headers.get(HEADER_STREAM_MULTI) == "true":
        try:
            return decode_chunks(body)
        except MalformedError as error:
            raise refusal(CODE_MALFORMED_CHUNKS, str(error)) from error
    return [] if ends and not body else [body]


def _cbor_response(value: object) -> web.Response:
    return web.Response(body=encode_value(value), content_type=spec.CBOR_CONTENT_TYPE)
