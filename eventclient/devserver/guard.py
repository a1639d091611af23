"""Who may ask, and how much: the checks every request passes before a route sees it.

The token comes first, so that a stranger costs no body; then the body is read, see `bodies`.
`connections` bounds what comes before that.

A server on a loopback address without a token takes anything that this machine sends, but not what a page
from elsewhere makes a browser of this machine send: 403 for a `Host` other than a loopback address,
``localhost`` or a name below it, with any port, and for an `Origin` that is no page of such a host. A token
makes both checks needless: no page knows it.
"""

from __future__ import annotations

import hmac
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.errors import ConfigurationError
from eventclient.wire.replies import Refused

from .account import account_of
from .bodies import BodyBudget, drop_body, take_body
from .connections import wants_other_protocol
from .limits import Limits
from .origins import is_loopback, refuse_foreign
from .responses import refused_response

CODE_UNAUTHORIZED: Final = "unauthorized"
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
    if token is None and not allow_anyone and not is_loopback(host):
        raise ConfigurationError(
            f"{host or 'every address'} is no loopback address: set a token (--token), or let anyone"
            " come in (--allow-anyone)"
        )


def make_guard(host: str, token: str | None, limits: Limits) -> Middleware:
    """The middleware that checks who asks, by the token if there is one, and reads the body.

    Handlers find the body read, in ``request.read()``; it is gone when they have answered.

    Args:
        host: where the server listens.
        token: what callers have to send.
        limits: what bodies may cost, each and together.
    """
    expected = None if token is None else token.encode()
    is_local_only = token is None and is_loopback(host)
    budget = BodyBudget(limits.max_bodies_bytes)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if expected is not None and not _may_enter(request, expected):
            account_of(request).is_kept = False
            refused = refused_response(Refused(401, CODE_UNAUTHORIZED, "the token is missing or wrong"))
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        foreign = refuse_foreign(request) if is_local_only else None
        if foreign is not None:
            account_of(request).is_kept = False
            return refused_response(foreign)
        if not request.body_exists:
            return await _answer(request, handler)
        async with budget.claim() as claim:
            try:
                refusal = await take_body(request, limits, claim)
                if refusal is None:
                    return await _answer(request, handler)
            finally:
                drop_body(request)
        answer = refused_response(refusal)
        # What is left of the body must not be taken for the next request.
        answer.force_close()
        return answer

    return guard


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    if wants_other_protocol(request) and not response.prepared:
        response.force_close()
    return response


def _may_enter(request: web.Request, expected: bytes) -> bool:
    if account_of(request).route in OPEN_ROUTES:
        return True
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_token = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), expected)
    return scheme.lower() == "bearer" and is_token
