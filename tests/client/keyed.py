"""A server that keeps idempotency keys, as far as a client can see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from eventclient.wire import spec
from tests.support.scripted_server import Reply

ADVERT: Final = (spec.HEADER_KEY_SUPPORT, "true")
DEADLINE: Final = spec.CODE_DEADLINE_EXCEEDED
IN_PROGRESS: Final = spec.CODE_IN_PROGRESS
REUSE: Final = spec.CODE_KEY_REUSE


def supporting(reply: Reply, *, replayed: bool = False, named: bool = False) -> Reply:
    """`reply` with the advert of a server that keeps keys; `named` ones name the key that was looked up."""
    pairs = list(reply.headers.items() if hasattr(reply.headers, "items") else reply.headers)
    pairs.append(ADVERT)
    if named:
        pairs.append((spec.HEADER_KEY, '"whichever"'))
    if replayed:
        pairs.append((spec.HEADER_KEY_REPLAYED, "true"))
    return Reply(
        status=reply.status, headers=pairs, body=reply.body, fault=reply.fault, fault_after=reply.fault_after
    )


def told(status: int, code: str | None, *paces: str, field: str = "code", advert: bool = True) -> Reply:
    """A refusal with `code`, in the body's `field` or in the header ``X-Error-Type``."""
    body: dict[str, str] = {"message": "told so"}
    pairs = [("Content-Type", "application/json"), *((spec.HEADER_RETRY_AFTER, pace) for pace in paces)]
    if code is not None and field == spec.HEADER_ERROR_TYPE:
        pairs.append((field, code))
    elif code is not None:
        body[field] = code
    if advert:
        pairs.append(ADVERT)
    return Reply(status=status, headers=pairs, body=json.dumps(body).encode())


def deadline(*paces: str) -> Reply:
    """504: still being executed."""
    return told(504, DEADLINE, *paces)


def in_progress(*paces: str) -> Reply:
    """409: still being executed."""
    return told(409, IN_PROGRESS, *paces)


def reuse() -> Reply:
    """422: the key came with another request."""
    return told(422, REUSE)


def keys_of(requests: Sequence[object]) -> list[str | None]:
    """The key each request came with."""
    return [request.headers.get(spec.HEADER_KEY) for request in requests]  # type: ignore[attr-defined]
