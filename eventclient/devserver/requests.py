"""What a request says: path segments, query, body. Whatever is wrong with it becomes a `RefusalError`."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.frames import decode_frames
from eventclient.wire.posted import PostedEvent, decode_event
from eventclient.wire.replies import Refused

from .admission import CODE_BATCH_TOO_LARGE
from .cursor import decode_cursor
from .engine import CODE_BAD_CURSOR, PAGE_SIZE
from .state import LogQuery

MAX_BATCH_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_ID_CHARS: Final = 256
CODE_MALFORMED_FRAMES: Final = "malformed-frames"
CODE_INVALID_REQUEST: Final = "invalid-request"


class RefusalError(Exception):
    """The request is answered with `refused`."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def refusal(code: str, message: str) -> RefusalError:
    """A 400."""
    return RefusalError(Refused(400, code, message))


def read_segment(request: web.Request, name: str) -> str:
    """A path segment, percent-decoded."""
    return _check_id(request.match_info[name], name)


def _check_id(text: str, name: str) -> str:
    if not text or len(text) > MAX_ID_CHARS or text in (".", "..") or not text.isprintable():
        raise refusal(CODE_INVALID_REQUEST, f"{name} is no identifier")
    return text


async def read_events(request: web.Request, *, max_bytes: int | None = None) -> list[PostedEvent]:
    """The events of a framed body, at least one; `max_bytes` is the most a batch may have."""
    body = await request.read()
    if max_bytes is not None and len(body) > max_bytes:
        raise refusal(CODE_BATCH_TOO_LARGE, f"the batch has {len(body)} bytes, more than {max_bytes}")
    try:
        events = [decode_event(frame) for frame in decode_frames(body)]
    except MalformedError as error:
        raise refusal(CODE_MALFORMED_FRAMES, str(error)) from error
    except OverflowError as error:
        raise refusal(CODE_MALFORMED_FRAMES, "a date is out of range") from error
    if not events:
        raise refusal(CODE_MALFORMED_FRAMES, "the body is empty")
    return events


async def read_event(request: web.Request) -> PostedEvent:
    """The one event of a framed body."""
    events = await read_events(request)
    if len(events) != 1:
        raise refusal(CODE_MALFORMED_FRAMES, f"the body has {len(events)} frames, not one")
    return events[0]


def wants_frames(request: web.Request) -> bool:
    """Whether the caller asks for the log itself as the answer to its post."""
    return spec.FRAMES_CONTENT_TYPE in request.headers.get("Accept", "")


def wants_payloads(request: web.Request) -> bool:
    """Whether a read is to hold the payloads; it is unless it says ``lazy``."""
    return request.query.get("remoteRefBehavior") != "lazy"


def read_log_query(request: web.Request, run_id: str, *, correlation_id: str | None = None) -> LogQuery:
    """Which rows a LIST asks for, with one more than its page so that the answer knows of a next one."""
    query = request.query
    cursor = query.get("cursor")
    after = decode_cursor(cursor) if cursor is not None else None
    if cursor is not None and after is None:
        raise refusal(CODE_BAD_CURSOR, "cursor is no cursor of this server")
    order = query.get("sortOrder", "asc")
    if order not in ("asc", "desc"):
        raise refusal(CODE_INVALID_REQUEST, "sortOrder is neither asc nor desc")
    limit = read_limit(request)
    return LogQuery(
        run_id=run_id,
        after=after,
        limit=limit + 1 if limit is not None else None,
        descending=order == "desc",
        correlation_id=correlation_id,
    )


def read_limit(request: web.Request) -> int | None:
    """The page size: what the caller names, within 1..1000; all rows when it wants them all."""
    text = request.query.get("limit")
    if text is None:
        return None if request.query.get("returnAll") == "true" else PAGE_SIZE
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise refusal(CODE_INVALID_REQUEST, "limit is no whole number from 1 up")
    return min(int(text), PAGE_SIZE)


def read_query_id(request: web.Request, name: str) -> str:
    """An identifier that the query has to name."""
    return _check_id(request.query.get(name, ""), name)
