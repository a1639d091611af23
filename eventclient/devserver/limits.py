"""How much a caller may ask of the server before it is turned away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from eventclient.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what a connection and a request may cost.

    Whatever callers do, the server takes at most `max_bodies_bytes` of bodies at once: a body counts from
    when it is announced, or as it comes, until the answer to it is made. Decoding and storing make copies:
    measured, the memory grows by five times a long event that comes alone, by 3.3 times four of them that
    come together and by 1.5 to 3 times parts of streams, so that 256 MiB cost less than 1 GiB. What a
    store in memory has stored stays there, and no limit is set to that.

    Raises:
        ConfigurationError: the longest body would never be taken.

    Attributes:
        max_body_bytes: longest body of a request; 413 beyond it. A batch has a lower limit of its own.
        max_bodies_bytes: the length of all bodies in flight together; 503 with Retry-After for a body
            beyond it.
        max_meta_bytes: longest meta of a frame, told by its prefix; 400 beyond it. Payloads travel in
            the body of the frame, so this bounds names, attributes and contexts.
        max_header_bytes: longest request line and longest header; 431 beyond it.
        max_header_count: most headers; 431 beyond it.
        max_connection_count: most connections at once; a further one is told 503 and closed.
        header_timeout_s: seconds from the first byte of a request to the end of its headers; then 408.
        body_timeout_s: seconds for the whole body to arrive; then 408.
        idle_timeout_s: seconds a connection may stay open without a request.
        linger_s: seconds for which the rest of a refused body is read and thrown away, so that the caller
            gets to see the refusal.
    """

    max_body_bytes: int = 64 * 1024 * 1024
    max_bodies_bytes: int = 256 * 1024 * 1024
    max_meta_bytes: int = 128 * 1024
    max_header_bytes: int = 8190
    max_header_count: int = 128
    max_connection_count: int = 512
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 75.0
    linger_s: float = 2.0

    def __post_init__(self) -> None:
        if self.max_body_bytes > self.max_bodies_bytes:
            raise ConfigurationError("max_body_bytes is more than max_bodies_bytes")


LIMITS: Final = web.AppKey("limits", Limits)
"""Where an application keeps its limits."""
