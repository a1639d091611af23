"""The bodies of requests: read before a route sees them, bounded in size, in time and in what all of them
take together. A compressed body is refused (415): no known client sends one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from eventclient.wire.replies import Refused

from .connections import CODE_MALFORMED_REQUEST, CODE_TOO_SLOW
from .limits import Limits
from .requests import CODE_BODY_TOO_LARGE

CODE_UNSUPPORTED_ENCODING: Final = "unsupported-encoding"
CODE_TOO_MANY_BODIES: Final = "too-many-bodies"
RETRY_AFTER_S: Final = 1

_NO_ROOM: Final = Refused(
    503, CODE_TOO_MANY_BODIES, "the server holds as many bytes of bodies as it takes", RETRY_AFTER_S
)


class BodyBudget:
    """The bytes that all bodies in flight may have together.

    Attributes:
        free_bytes: how many of them are not taken.
    """

    def __init__(self, max_bytes: int) -> None:
        self.free_bytes = max_bytes

    @asynccontextmanager
    async def claim(self) -> AsyncIterator[Claim]:
        """A claim that takes nothing yet, and gives back what it took when the block ends."""
        claim = Claim(self)
        try:
            yield claim
        finally:
            claim.end()


class Claim:
    """What one request takes of a budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._taken_bytes = 0

    def reach(self, size_bytes: int) -> bool:
        """Whether the claim takes `size_bytes` now; when there is no room for them it stays as it was."""
        more_bytes = max(0, size_bytes - self._taken_bytes)
        if more_bytes > self._budget.free_bytes:
            return False
        self._budget.free_bytes -= more_bytes
        self._taken_bytes += more_bytes
        return True

    def end(self) -> None:
        """Give back what was taken."""
        self._budget.free_bytes += self._taken_bytes
        self._taken_bytes = 0


async def take_body(request: web.Request, limits: Limits, claim: Claim) -> Refused | None:
    """Read the body into the request, for ``request.read()``, or say why not."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return Refused(415, CODE_UNSUPPORTED_ENCODING, "compressed bodies are not taken")
    declared_bytes = request.content_length or 0
    if declared_bytes > limits.max_body_bytes:
        return _too_large(limits)
    if not claim.reach(declared_bytes):
        return _NO_ROOM
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await _read(request, limits, claim)
    except TimeoutError:
        return Refused(408, CODE_TOO_SLOW, "the body did not come in time")
    except (web.RequestPayloadError, HttpProcessingError, ConnectionError):
        return Refused(400, CODE_MALFORMED_REQUEST, "the body is broken or cut off")


async def _read(request: web.Request, limits: Limits, claim: Claim) -> Refused | None:
    # Not the framework's own reading, which would let a whole body of the greatest size pile up before it
    # looks, and asks nobody whether there is room.
    body = bytearray()
    while piece := await request.content.readany():
        if len(body) + len(piece) > limits.max_body_bytes:
            return _too_large(limits)
        if not claim.reach(len(body) + len(piece)):
            return _NO_ROOM
        body += piece
    if body:
        # A middleware around this one may have read it already; then nothing was left to read here.
        request._read_bytes = bytes(body)
    return None


def drop_body(request: web.Request) -> None:
    """Forget the body: an idle connection keeps its last request until the next one comes."""
    request._read_bytes = None


def _too_large(limits: Limits) -> Refused:
    return Refused(413, CODE_BODY_TOO_LARGE, f"the body has more than {limits.max_body_bytes} bytes")
