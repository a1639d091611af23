"""Connections: what is bounded, and refused, before there is a request to route.

A request that cannot be parsed is answered in JSON like any other refusal: 431 when its line or its headers
are too long or too many, 408 when its headers do not come in time, else 400. Nothing of it is repeated or
logged, but that it was refused: it may hold a token.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from eventclient.wire import spec
from eventclient.wire.replies import Refused

from .account import has_account
from .limits import Limits
from .responses import refused_response

CODE_MALFORMED_REQUEST: Final = "malformed-request"
CODE_HEADERS_TOO_LARGE: Final = "headers-too-large"
CODE_TOO_SLOW: Final = "request-timeout"
CODE_EXPECTATION_FAILED: Final = "expectation-failed"
MAX_WAITING_REQUESTS: Final = 512
"""How many requests one connection may send ahead of their answers."""

_TOO_SLOW: Final = Refused(408, CODE_TOO_SLOW, "the headers did not come in time")
_TOO_MANY: Final = Refused(503, "too-many-connections", "the server has as many connections as it takes", 1)

Tell = Callable[[int, str], None]
"""Is told the status and the code of a refusal."""

logger = logging.getLogger("eventclient.devserver")


class Connection(web.RequestHandler):
    """One connection of the server.

    Args:
        tell: of requests that are refused here, and that no middleware gets to see.

    Attributes:
        lost: set when the connection is gone.
    """

    __slots__ = ("_arriving", "_limits", "_request", "_taking_over", "_tell", "_timer", "lost")

    def __init__(
        self, server: web.Server, loop: asyncio.AbstractEventLoop, limits: Limits, tell: Tell
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=limits.idle_timeout_s,
            max_line_size=limits.max_header_bytes,
            max_field_size=limits.max_header_bytes,
            max_headers=limits.max_header_count,
            lingering_time=limits.linger_s,
            auto_decompress=False,
        )
        self._limits = limits
        self._tell = tell
        self._request: web.BaseRequest | None = None
        self._arriving = False
        self._taking_over = False
        self._timer: asyncio.TimerHandle | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._set_timer(self._limits.idle_timeout_s, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._set_timer(None)
        self._request = None
        self.lost.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._taking_over:
            # The caller wants another protocol, and gets an answer in this one and the end.
            return
        if self._request is None and not self._arriving:
            self._arriving = True
            self._set_timer(self._limits.header_timeout_s, self._refuse_slow_headers)
        super().data_received(data)
        self._check_body()
        if len(self._messages) > MAX_WAITING_REQUESTS:
            self.force_close()

    async def _handle_request(
        self,
        request: web.BaseRequest,
        start_time: float | None,
        request_handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> tuple[web.StreamResponse, bool]:
        self._set_timer(None)
        self._arriving = False
        self._request = request
        self._taking_over = wants_other_protocol(request)
        self._check_body()
        try:
            return await super()._handle_request(request, start_time, request_handler)
        finally:
            self._request = None
            if self._taking_over:
                self.close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPException):
            # The one the framework raises before any middleware: an expectation nobody knows.
            refused = Refused(resp.status, CODE_EXPECTATION_FAILED, resp.reason)
            if not has_account(request):
                self._tell(refused.status, refused.code)
            resp = refused_response(refused)
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that could not be parsed, or whose handler failed."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.error("a request could not be answered", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        refused = _refusal_of(status, exc)
        # The end of one whose handler failed has been told.
        if not has_account(request):
            self._tell(refused.status, refused.code)
        response = refused_response(refused)
        response.force_close()
        return response

    def _check_body(self) -> None:
        """Tell whoever waits for the body of the request that it is broken.

        The framework keeps a fault in a body for after the request, which waits for its body meanwhile.
        """
        request = self._request
        if request is not None and self._messages and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError("the body is broken"))

    def _refuse_slow_headers(self) -> None:
        if self.transport is not None:
            self.transport.write(encode_refusal(_TOO_SLOW))
            self._tell(_TOO_SLOW.status, _TOO_SLOW.code)
        self.force_close()

    def _set_timer(self, delay_s: float | None, then: Callable[[], None] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if delay_s is not None and then is not None:
            self._timer = self._loop.call_later(delay_s, then)


def wants_other_protocol(request: web.BaseRequest) -> bool:
    """Whether what follows the request is to be in another protocol. It is answered in this one, and its
    connection is ended: the framework would keep what follows in memory."""
    return "Upgrade" in request.headers or request.method == "CONNECT"


class Overflow(asyncio.Protocol):
    """A connection beyond the limit: told so, and closed."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writable = cast(asyncio.Transport, transport)
        writable.write(encode_refusal(_TOO_MANY))
        self._tell(_TOO_MANY.status, _TOO_MANY.code)
        writable.close()


async def listen(runner: web.AppRunner, host: str, port: int, limits: Limits, tell: Tell) -> asyncio.Server:
    """Take connections for the server of `runner`, which has been set up and ends them when it is cleaned up.
    `tell` hears of what is refused before there is a request to route.

    Raises:
        OSError: the address cannot be listened on.
    """
    loop = asyncio.get_running_loop()
    server = runner.server
    if server is None:
        raise RuntimeError("the runner has not been set up")

    def accept() -> asyncio.Protocol:
        if len(server.connections) >= limits.max_connection_count:
            return Overflow(tell)
        return Connection(server, loop, limits, tell)

    return await loop.create_server(accept, host, port, backlog=128)


def encode_refusal(refused: Refused) -> bytes:
    """A whole answer that refuses, and says that it ends the connection."""
    body = json.dumps({"message": refused.message, "code": refused.code}).encode()
    fields: dict[str, Any] = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": len(body),
        "Connection": "close",
        spec.HEADER_KEY_SUPPORT: spec.TRUE,
    }
    if refused.retry_after_s is not None:
        fields["Retry-After"] = refused.retry_after_s
    head = [f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode() + body


def _refusal_of(status: int, error: BaseException | None) -> Refused:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refused(status, "internal-error", "the server failed; its log says why")
    # The parser has no error of its own for too many headers.
    if isinstance(error, LineTooLong) or "many headers" in str(error):
        return Refused(
            431, CODE_HEADERS_TOO_LARGE, "the request line or the headers are too long or too many"
        )
    return Refused(400, CODE_MALFORMED_REQUEST, "the request is no HTTP request")
