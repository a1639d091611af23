"""The requests of reads."""

from __future__ import annotations

from collections.abc import Mapping

from eventclient.clock import Clock
from eventclient.wire import spec

from .endpoint import Endpoint
from .transport import Request


def get_request(
    endpoint: Endpoint, clock: Clock, path: str, query: Mapping[str, str], label: str, *, partial: bool
) -> Request:
    """A GET of an escaped `path`; `partial` says that a cut answer is worth having."""
    headers = {
        **endpoint.headers,
        "Accept": "*/*",
        spec.HEADER_REQUEST_TIME: str(int(clock.wall().timestamp() * 1000)),
    }
    return Request("GET", endpoint.url(path, query), label, headers, partial=partial)
