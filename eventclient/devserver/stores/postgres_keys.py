"""How names become values that PostgreSQL can index and lock, and how a database is named to people."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import SplitResult, urlsplit

MAX_KEY_LENGTH: Final = 200
"""Longest name that is a key as it is. A B-tree refuses rows of more than about 2700 bytes.
Source: PostgreSQL 15 manual, section 67.4.1."""
_DIGEST_MARK: Final = "#"
_SOMEWHERE: Final = "the PostgreSQL database"


def key_of(name: str) -> str:
    """What stands for `name` in the database, for any name there is.

    Short printable ASCII stands for itself, so that people can read it; anything else is a digest: text in
    PostgreSQL holds no NUL, may be in an encoding that lacks a character, and must be short to be indexed.
    """
    plain = len(name) <= MAX_KEY_LENGTH and name.isascii() and name.isprintable()
    if plain and not name.startswith(_DIGEST_MARK):
        return name
    return _DIGEST_MARK + blake2b(_bytes(name), digest_size=32).hexdigest()


def lock_of(kind: str, name: str) -> int:
    """The number of the advisory lock on a thing: 64 bits, signed. Two things that share one only wait
    for each other."""
    digest = blake2b(_bytes(name), digest_size=8, person=kind.encode())
    return int.from_bytes(digest.digest(), "big", signed=True)


def place_of(dsn: str) -> str:
    """Where `dsn` leads to, to be shown: never with any part of a password, also when `dsn` is malformed."""
    try:
        split = urlsplit(dsn)
        port = split.port
    except ValueError:
        return _SOMEWHERE
    name = split.path.removeprefix("/")
    if split.scheme not in ("postgresql", "postgres") or not name or _is_doubtful(split, name):
        return _SOMEWHERE
    host = f" at {split.hostname}" if split.hostname else ""
    return f"{_SOMEWHERE} {name}{host}{f':{port}' if host and port else ''}"


def _is_doubtful(split: SplitResult, name: str) -> bool:
    """Whether a password with an unquoted ``/``, ``?`` or ``#`` may have ended in other parts."""
    return any("@" in part for part in (name, split.query, split.fragment)) or bool(split.fragment)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
