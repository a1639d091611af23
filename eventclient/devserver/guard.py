"""Who may ask, and how much: the checks every request passes before a route sees it.

The token comes first, so that a stranger costs no body; then the body is read, bounded in size and time.
`connections` bounds what comes before that. A compressed body is refused (415): no known client sends one.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from eventclient.errors import ConfigurationError
from eventclient.wire.replies import Refused

from .account import account_of
from .connections import CODE_MALFORMED_REQUEST, CODE_TOO_SLOW, wants_other_protocol
from .limits import LIMITS, Limits
from .requests import CODE_BODY_TOO_LARGE
from .responses import refused_response

CODE_UNAUTHORIZED: Final = "unauthorized"
CODE_UNSUPPORTED_ENCODING: Final = "unsupported-encoding"
OPEN_ROUTES: Final = frozenset({"health", "page"})
"""Names of the routes that need no token."""


def check_exposure(host: str, token: str | None, *, allow_anyone: bool) -> None:
    """Whether the server may listen on `host` with `token`.

    Raises:
        ConfigurationError: the token cannot be sent in a header, or there is none and others than
            this machine could come in without `allow_anyone`.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise ConfigurationError(
            "the token has to be printable ASCII characters without spaces, at least one"
        )
    if token is None and not allow_anyone and not _is_loopback(host):
        raise ConfigurationError(
            f"{host or 'every address'} is no loopback address: set a token, or allow anyone to come in"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_guard(token: str | None) -> Middleware:
    """The middleware that checks the token, if there is one, and reads the body.

    Handlers find the body read, in ``request.read()``.
    """
    expected = None if token is None else token.encode()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if expected is not None and not _may_enter(request, expected):
            refused = refused_response(Refused(401, CODE_UNAUTHORIZED, "the token is missing or wrong"))
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        if request.body_exists:
            refusal = await _take_body(request, request.app[LIMITS])
            if refusal is not None:
                answer = refused_response(refusal)
                # What is left of the body must not be taken for the next request.
                answer.force_close()
                return answer
        response = await handler(request)
        if wants_other_protocol(request) and not response.prepared:
            response.force_close()
        return response

    return guard


def _may_enter(request: web.Request, expected: bytes) -> bool:
    if account_of(request).route in OPEN_ROUTES:
        return True
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_token = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), expected)
    return scheme.lower() == "bearer" and is_token


async def _take_body(request: web.Request, limits: Limits) -> Refused | None:
    """Read the body into the request, or say why not."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return Refused(415, CODE_UNSUPPORTED_ENCODING, "compressed bodies are not taken")
    limit = limits.max_body_bytes
    if (request.content_length or 0) > limit:
        return _too_large(limit)
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            body = await request.read()
    except TimeoutError:
        return Refused(408, CODE_TOO_SLOW, "the body did not come in time")
    except web.HTTPRequestEntityTooLarge:
        return _too_large(limit)
    except (web.RequestPayloadError, HttpProcessingError, ConnectionError):
        return Refused(400, CODE_MALFORMED_REQUEST, "the body is broken or cut off")
    # The framework's own limit is off by one in some versions.
    return _too_large(limit) if len(body) > limit else None


def _too_large(limit: int) -> Refused:
    return Refused(413, CODE_BODY_TOO_LARGE, f"the body has more than {limit} bytes")
