"""Idempotency keys as requests carry them.

A key is a quoted string of 1 to 255 printable ASCII characters, in which a backslash stands before a
quotation mark or another backslash. It belongs to the run in the path of its request.

Source: RFC 8941 section 3.3.3 (strings), draft-ietf-httpapi-idempotency-key-header-07.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.wire import spec
from eventclient.wire.replies import Refused

from .account import account_of
from .requests import RefusalError
from .responses import refused_response
from .state import Key

CODE_KEY_INVALID: Final = "idempotency_key_invalid"
CODE_KEY_UNSUPPORTED: Final = "idempotency_key_unsupported"
KEYED_ROUTES: Final = frozenset({"single", "batch", "flat"})
"""Names of the routes that take keys."""
_STRING: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"', re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.)")
_WRITES: Final = frozenset({"POST", "PUT"})


async def read_key(request: web.Request, kind: str) -> Key | None:
    """The key of a request of this `kind`; None when it carries none.

    Raises:
        RefusalError: it is malformed.
    """
    values = request.headers.getall(spec.HEADER_KEY, None)
    if values is None:
        return None
    text = parse_key(values[0]) if len(values) == 1 else None
    if text is None:
        message = f"{spec.HEADER_KEY} is no quoted string of 1 to {spec.MAX_KEY_CHARS} characters"
        raise RefusalError(Refused(400, CODE_KEY_INVALID, message))
    fingerprint = hashlib.sha256(kind.encode() + b"\0" + await request.read()).digest()
    return Key(text, fingerprint, account_of(request).pause)


def parse_key(value: str) -> str | None:
    """The key in a header; None when it is malformed."""
    found = _STRING.fullmatch(value.strip(" \t"))
    text = _ESCAPE.sub(r"\1", found[1]) if found is not None else ""
    return text if 1 <= len(text) <= spec.MAX_KEY_CHARS else None


def marked(response: web.Response, key: Key | None, *, is_replayed: bool) -> web.Response:
    """`response`, marked as the answer to a request whose key was looked up, and as one given before.

    Other answers may say that keys are honoured, too: of a guard, or an injected fault. Those know nothing of
    the key.
    """
    if key is not None:
        escaped = key.text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers[spec.HEADER_KEY] = f'"{escaped}"'
    if is_replayed:
        response.headers[spec.HEADER_KEY_REPLAYED] = spec.TRUE
    return response


def unsupported() -> Refused:
    """What a write says that has a key where none can be honoured."""
    return Refused(
        400, CODE_KEY_UNSUPPORTED, "keys are taken with posts of events to a run named in the path"
    )


def takes_key(request: web.Request) -> bool:
    """Whether `request` has a key, and goes where keys are honoured."""
    return spec.HEADER_KEY in request.headers and account_of(request).route in KEYED_ROUTES


def refuse_stray_keys() -> Middleware:
    """A middleware that refuses a write with a key where none is honoured: who sends one relies on it."""

    @web.middleware
    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (
            spec.HEADER_KEY in request.headers
            and request.method in _WRITES
            and account_of(request).route not in KEYED_ROUTES
            and request.match_info.http_exception is None
        ):
            return refused_response(unsupported())
        return await handler(request)

    return refuse


async def advertise(_: web.Request, response: web.StreamResponse) -> None:
    """Say with every answer that keys are honoured."""
    response.headers[spec.HEADER_KEY_SUPPORT] = spec.TRUE
