"""The page itself: one file with everything in it, and the policy that keeps it to that."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

DATA_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of the page and of everything it asks for."""

_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document:
    """A page and the headers it has to be sent with."""

    text: str
    headers: Mapping[str, str]


@cache
def read_document() -> Document:
    """The page. Its policy lets it run what is in it and ask the server it came from, and nothing else:
    no other script or style, no other host, no frame around it, no text that turns into markup."""
    text = resources.files(__package__).joinpath("index.html").read_text(encoding="utf-8")
    hashes = {name: _hash(content) for name, content in _INLINE.findall(text)}
    policy = {
        "default-src": "'none'",
        "script-src": hashes["script"],
        "style-src": hashes["style"],
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    told = "; ".join(f"{directive} {source}" for directive, source in policy.items())
    return Document(text, {**DATA_HEADERS, "Content-Security-Policy": told})


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
