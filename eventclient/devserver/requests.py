"""What a request says: path segments, query, body. Whatever is wrong with it becomes a `RefusalError`."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.flat import decode_flat_event, decode_map
from eventclient.wire.frames import FrameCountError, decode_frames
from eventclient.wire.posted import PostedEvent, decode_event
from eventclient.wire.replies import Refused

from .admission import CODE_BATCH_TOO_LARGE, is_identifier
from .cursor import CODE_BAD_CURSOR, decode_cursor
from .engine import PAGE_SIZE
from .limits import LIMITS
from .state import LogQuery

MAX_BATCH_BODY_BYTES: Final = 4 * 1024 * 1024
CODE_MALFORMED_FRAMES: Final = "malformed-frames"
CODE_MALFORMED_BODY: Final = "malformed-body"
CODE_INVALID_REQUEST: Final = "invalid-request"
CODE_BODY_TOO_LARGE: Final = "body-too-large"

_MAX_DIGITS: Final = 9
"""Every database takes such a number as any kind of integer."""


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
    if not is_identifier(text):
        raise refusal(CODE_INVALID_REQUEST, f"{name} is no identifier")
    return text


async def read_batch(request: web.Request) -> list[PostedEvent]:
    """The events of a framed body, at least one and no more than a batch may have."""
    body = await request.read()
    if len(body) > MAX_BATCH_BODY_BYTES:
        message = f"the batch has {len(body)} bytes, more than {MAX_BATCH_BODY_BYTES}"
        raise refusal(CODE_BATCH_TOO_LARGE, message)
    try:
        return _decode_events(request, body, spec.HARD_MAX_BATCH_EVENTS)
    except FrameCountError as error:
        raise refusal(CODE_BATCH_TOO_LARGE, str(error)) from error


def _decode_events(request: web.Request, body: bytes, max_count: int) -> list[PostedEvent]:
    max_meta_bytes = request.app[LIMITS].max_meta_bytes
    try:
        frames = decode_frames(body, max_count=max_count, max_meta_bytes=max_meta_bytes)
        events = [decode_event(frame) for frame in frames]
    except FrameCountError:
        raise
    except MalformedError as error:
        raise refusal(CODE_MALFORMED_FRAMES, str(error)) from error
    except OverflowError as error:
        raise refusal(CODE_MALFORMED_FRAMES, "a date is out of range") from error
    if not events:
        raise refusal(CODE_MALFORMED_FRAMES, "the body is empty")
    return events


async def read_event(request: web.Request) -> PostedEvent:
    """The one event of a framed body."""
    try:
        (event,) = _decode_events(request, await request.read(), 1)
    except FrameCountError as error:
        raise refusal(CODE_MALFORMED_FRAMES, str(error)) from error
    return event


async def read_flat_event(request: web.Request) -> PostedEvent:
    """The event of a flat body."""
    body = await request.read()
    try:
        return decode_flat_event(body)
    except MalformedError as error:
        raise refusal(CODE_MALFORMED_BODY, str(error)) from error
    except OverflowError as error:
        raise refusal(CODE_MALFORMED_BODY, "a date is out of range") from error


async def read_map(request: web.Request) -> dict[str, Any]:
    """The CBOR map of a body."""
    body = await request.read()
    try:
        return decode_map(body)
    except MalformedError as error:
        raise refusal(CODE_MALFORMED_BODY, str(error)) from error


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
    limit = read_limit(request)
    return LogQuery(
        run_id=run_id,
        after=after,
        limit=limit + 1 if limit is not None else None,
        descending=read_descending(request),
        correlation_id=correlation_id,
        payloads=wants_payloads(request),
    )


def read_descending(request: web.Request, default: bool = False) -> bool:
    """Whether the last come first."""
    order = request.query.get("sortOrder")
    if order not in (None, "asc", "desc"):
        raise refusal(CODE_INVALID_REQUEST, "sortOrder is neither asc nor desc")
    return default if order is None else order == "desc"


def read_limit(request: web.Request, default: int = PAGE_SIZE) -> int | None:
    """The page size: what the caller names, within 1..1000; all rows when it wants them all."""
    text = request.query.get("limit")
    if text is None and request.query.get("returnAll") == "true":
        return None
    return min(read_number(request, "limit", default, least=1), PAGE_SIZE)


def read_number(
    request: web.Request, name: str, default: int, *, least: int | None = 0, code: str = CODE_INVALID_REQUEST
) -> int:
    """A whole number of the query, from `least` up; None takes negative ones, too."""
    text = request.query.get(name)
    if text is None:
        return default
    digits = text if least is not None else text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS:
        number = int(text)
        if least is None or number >= least:
            return number
    raise refusal(code, f"{name} is no whole number" + ("" if least is None else f" from {least} up"))


def read_query_id(request: web.Request, name: str) -> str:
    """An identifier that the query has to name."""
    return _check_id(request.query.get(name, ""), name)
