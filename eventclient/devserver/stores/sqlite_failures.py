"""Which failures of SQLite no change is to blame for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from eventclient.devserver.store import StoreUnavailableError

_BLAMELESS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_PRIMARY: Final = 0xFF
"""The part of a result code that its extensions share. Source: sqlite.org/rescode.html, section 2."""


def is_blameless(error: sqlite3.Error) -> bool:
    """Whether `error` comes from the file, its lock or its disk, and not from what was asked of them."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _BLAMELESS


@contextmanager
def blameless() -> Iterator[None]:
    """A block that must leave nothing behind when it fails.

    Raises:
        StoreUnavailableError: it failed by nobody's fault.
    """
    try:
        yield
    except sqlite3.Error as error:
        if not is_blameless(error):
            raise
        raise StoreUnavailableError(str(error)) from error
