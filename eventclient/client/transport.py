"""Carries bytes. The only aiohttp client code; here, and only here, foreign exceptions become a `Loss`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, Protocol

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from .options import ClientOptions

# Below the shortest idle timeout common servers use (5 s), so that a pooled connection is dropped here
# before it is dropped there.
_KEEPALIVE_S: Final = 4.0
_LARGE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to be sent any number of times.

    Attributes:
        label: what it is, for logs and errors; no address, no secret.
        partial: a cut answer is still worth having, as far as it goes (framed logs).
    """

    method: str
    url: URL
    label: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that is in hand.

    Attributes:
        cut: why the body stopped early; None when it is whole. Only for requests that take parts.
    """

    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes = field(repr=False)
    cut: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """No response, or not all of one.

    Attributes:
        sent: whether the server may have seen the request.
        cause: what happened, without addresses or contents.
        status, headers: of the answer that broke off, if one began.
    """

    sent: bool
    cause: str
    status: int | None = None
    headers: CIMultiDictProxy[str] | None = field(default=None, repr=False)


def whole_or_lost(reply: Answer | Loss) -> Answer | Loss:
    """`reply`, or its loss where it is a part of a refusal: parts are worth having of a log alone, and half a
    refusal may lack the very code that says what it means."""
    if isinstance(reply, Answer) and reply.cut is not None and not 200 <= reply.status < 300:
        return Loss(sent=True, cause=reply.cut, status=reply.status, headers=reply.headers)
    return reply


class Transport(Protocol):
    """Sends a request once."""

    async def send(self, request: Request) -> Answer | Loss:
        """The answer, or how it was lost. Raises nothing but a cancellation."""

    async def aclose(self) -> None:
        """Release what this transport opened itself."""


class AiohttpTransport:
    """Sends over an aiohttp session: its own, or an injected one that it never closes."""

    def __init__(self, options: ClientOptions, session: aiohttp.ClientSession | None = None) -> None:
        self._options = options
        self._session = session
        self._owned = session is None
        self._closed = False
        self._write_timeout = self._timeout(options.request_timeout_s)
        self._list_timeout = self._timeout(options.list_timeout_s)

    def _timeout(self, total_s: float) -> aiohttp.ClientTimeout:
        options = self._options
        return aiohttp.ClientTimeout(
            total=total_s,
            connect=options.connect_timeout_s,
            sock_connect=options.connect_timeout_s,
            sock_read=options.read_timeout_s,
        )

    async def send(self, request: Request) -> Answer | Loss:
        session = self._open()
        if session is None:
            return Loss(sent=False, cause="the session is closed")
        status: int | None = None
        headers: CIMultiDictProxy[str] | None = None
        try:
            async with session.request(
                request.method,
                request.url,
                data=_data(request.body),
                headers=request.headers,
                allow_redirects=False,
                raise_for_status=False,
                timeout=self._list_timeout if request.partial else self._write_timeout,
            ) as response:
                status, headers = response.status, response.headers
                return await self._receive(request, response)
        except aiohttp.ConnectionTimeoutError:
            return Loss(sent=False, cause="no connection in time")
        except aiohttp.ClientConnectorError as error:
            return Loss(sent=False, cause=f"no connection ({_name(error)})")
        except TimeoutError:
            return Loss(sent=True, cause="no answer in time", status=status, headers=headers)
        except (aiohttp.ClientError, OSError) as error:
            # An aiohttp error may claim a status of its own; only that of a response in hand counts.
            cause = f"connection lost ({_name(error)})"
            return Loss(sent=True, cause=cause, status=status, headers=headers)
        except RuntimeError as error:
            if not session.closed:
                raise
            return Loss(sent=False, cause=f"the session is closed ({_name(error)})")

    async def _receive(self, request: Request, response: aiohttp.ClientResponse) -> Answer | Loss:
        limit = self._options.max_answer_bytes
        # The length says how long a body is only when it is not compressed.
        plain = "Content-Encoding" not in response.headers
        if not request.partial and plain and (response.content_length or limit) < limit:
            return Answer(response.status, response.headers, await response.read())
        parts = bytearray()
        cut = None
        try:
            async for piece in response.content.iter_any():
                parts += piece
                if len(parts) > limit:
                    cut = f"the answer is longer than {limit} bytes"
                    response.close()
                    break
        except (aiohttp.ClientError, OSError) as error:
            cut = f"connection lost ({_name(error)})"
        if cut is not None and not request.partial:
            return Loss(sent=True, cause=cut, status=response.status, headers=response.headers)
        return Answer(response.status, response.headers, bytes(parts), cut)

    def _open(self) -> aiohttp.ClientSession | None:
        if self._session is None and not self._closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._options.max_connections, keepalive_timeout=_KEEPALIVE_S
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
            # aiohttp sends a GET again by itself, at once and uncounted; resending is the sender's affair.
            self._session._retry_connection = False
        session = self._session
        return None if session is None or session.closed else session

    async def aclose(self) -> None:
        self._closed = True
        if self._owned and self._session is not None:
            await self._session.close()


def _data(body: bytes | None) -> bytes | BytesIO | None:
    # aiohttp warns about large bytes, which it writes at once; a stream it writes piece by piece.
    return body if body is None or len(body) < _LARGE_BYTES else BytesIO(body)


def _name(error: BaseException) -> str:
    cause = error.__cause__ if isinstance(error, aiohttp.ClientError) and error.__cause__ else error
    return type(cause).__name__
