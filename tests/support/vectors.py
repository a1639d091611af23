"""The captured cases of the published client, by name."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent.parent / "vectors"


@cache
def names(kind: str) -> tuple[str, ...]:
    """Names of the cases in a subfolder, sorted."""
    found = tuple(sorted(path.stem for path in (FOLDER / kind).glob("*.json")))
    assert found, f"no cases under {FOLDER / kind}"
    return found


def load(kind: str, name: str) -> Any:
    """One case as `json.load` gives it."""
    return json.loads((FOLDER / kind / f"{name}.json").read_text(encoding="utf-8"))


def interop() -> Any:
    """The table of CBOR forms."""
    return load("cbor", "interop")


def captured_body(request: dict[str, Any], payload: bytes) -> bytes:
    """The body of a captured request; the biggest are kept as their head and have `payload` behind it."""
    if request.get("body_base64") is not None:
        return base64.b64decode(request["body_base64"])
    head = base64.b64decode(request["body_head_base64"])
    meta_end = 4 + int.from_bytes(head[:4], "big")
    body = head[: meta_end + 4] + payload
    assert hashlib.sha256(body).hexdigest() == request["body_sha256"]
    return body


def matches(name: str, patterns: Iterable[str]) -> list[str]:
    """Those of `patterns` (exact names, or with ``*``) that cover `name`."""
    return [pattern for pattern in patterns if fnmatchcase(name, pattern)]


def unused(patterns: Iterable[str], cases: Collection[str]) -> list[str]:
    """Those of `patterns` that cover no case."""
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in cases)]
