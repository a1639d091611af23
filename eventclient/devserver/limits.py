"""How much a caller may ask of the server before it is turned away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what a connection and a request may cost.

    Whatever callers do, the server holds at most `max_connection_count` bodies of `max_body_bytes`.

    Attributes:
        max_body_bytes: longest body of a request; 413 beyond it. A batch has a lower limit of its own.
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
    max_meta_bytes: int = 128 * 1024
    max_header_bytes: int = 8190
    max_header_count: int = 128
    max_connection_count: int = 512
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 75.0
    linger_s: float = 2.0


LIMITS: Final = web.AppKey("limits", Limits)
"""Where an application keeps its limits."""
