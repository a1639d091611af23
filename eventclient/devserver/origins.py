"""What a browser says of who asks: the names by which the server is called, and the pages that call it.

A server that asks for no token serves this machine only; a page from anywhere that is open in a browser of
this machine reaches it all the same. The browser tells of it: in `Origin` when the page is of another server,
in `Host` when the name of that other server was made to lead here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from eventclient.wire.replies import Refused

CODE_FOREIGN_HOST: Final = "foreign-host"
CODE_FOREIGN_ORIGIN: Final = "foreign-origin"

_FOREIGN_HOST: Final = Refused(
    403, CODE_FOREIGN_HOST, "Host is no name of this machine; a server with a token takes any"
)
_FOREIGN_ORIGIN: Final = Refused(
    403, CODE_FOREIGN_ORIGIN, "Origin is no page of this machine; a server with a token takes any"
)


def is_loopback(host: str) -> bool:
    """Whether `host` is an address that only this machine reaches, or the name of it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_foreign(request: web.Request) -> Refused | None:
    """Why a server for this machine only does not serve the request; None when it does.

    A caller that is no browser sends no `Origin`, and in HTTP/1.0 no `Host`: both may be absent.
    """
    if not all(_is_local(f"//{host}") for host in request.headers.getall("Host", [])):
        return _FOREIGN_HOST
    if not all(_is_local_page(origin) for origin in request.headers.getall("Origin", [])):
        return _FOREIGN_ORIGIN
    return None


def _is_local_page(origin: str) -> bool:
    # An extension, a file or a sandbox (``null``) is nobody who is known to mean well.
    return origin.lower().startswith(("http://", "https://")) and _is_local(origin)


def _is_local(url: str) -> bool:
    """Whether the authority of `url` is a name of this machine, with any port and nothing else."""
    try:
        place = urlsplit(url)
        _ = place.port
    except ValueError:
        return False
    if place.username is not None or place.path or place.query or place.fragment:
        return False
    name = (place.hostname or "").removesuffix(".")
    # Browsers resolve the names below localhost themselves, to this machine (RFC 6761, section 6.3).
    return is_loopback(name) or name.endswith(".localhost")
