"""Answers over HTTP: CBOR, frame streams, JSON refusals."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from eventclient.wire import spec
from eventclient.wire.replies import (
    Refused,
    Written,
    encode_end_frame,
    encode_event_frame,
    encode_results,
    encode_written,
)

from .cursor import encode_cursor
from .runs import MAX_EVENTS
from .state import LogRow


def refused_response(refused: Refused) -> web.Response:
    """A refusal as JSON."""
    # Also where no route was found, and no signal is sent.
    headers = {spec.HEADER_KEY_SUPPORT: spec.TRUE}
    if refused.retry_after_s is not None:
        headers[spec.HEADER_RETRY_AFTER] = str(refused.retry_after_s)
    body = {"message": refused.message, "code": refused.code}
    return web.json_response(body, status=refused.status, headers=headers)


def written_response(written: Written, *, resolve: bool) -> web.Response:
    """The answer to a single post."""
    return web.Response(
        body=encode_written(written, resolve=resolve),
        content_type=spec.CBOR_CONTENT_TYPE,
        headers=_post_headers(written),
    )


def results_response(results: Sequence[Written | Refused], resolves: Sequence[bool]) -> web.Response:
    """The answer to a batch."""
    return web.Response(body=encode_results(results, resolves), content_type=spec.CBOR_CONTENT_TYPE)


def frames_response(frames: Sequence[bytes], headers: dict[str, str] | None = None) -> web.Response:
    """A stream of whole frames."""
    return web.Response(body=b"".join(frames), content_type=spec.FRAMES_CONTENT_TYPE, headers=headers)


def page_response(
    rows: Sequence[LogRow], *, limit: int | None, cursor: str | None, resolve: bool
) -> web.Response:
    """A page of a log: `rows` up to `limit` of them; `cursor` is where the reader stood before."""
    page = rows if limit is None else rows[:limit]
    position = encode_cursor(page[-1].event_id) if page else cursor
    end = encode_end_frame(position, has_more=len(page) < len(rows))
    return frames_response([*event_frames(page, resolve=resolve), end])


def preload_response(written: Written, rows: Sequence[LogRow], *, resolve: bool) -> web.Response:
    """The whole log as the answer to a post."""
    position = encode_cursor(rows[-1].event_id) if rows else None
    headers = {**_post_headers(written), spec.HEADER_MAX_EVENTS: str(MAX_EVENTS)}
    end = encode_end_frame(position, has_more=False)
    return frames_response([*event_frames(rows, resolve=resolve), end], headers)


def event_frames(rows: Sequence[LogRow], *, resolve: bool) -> list[bytes]:
    """The frames of `rows`."""
    return [encode_event_frame(row.meta, row.payload, resolve=resolve) for row in rows]


def _post_headers(written: Written) -> dict[str, str]:
    return {spec.HEADER_EVENT_ID: written.row.event_id}
