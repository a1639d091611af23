"""What a failed exchange with PostgreSQL means for the changes that were under way."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import asyncpg  # type: ignore[import-untyped]

_ROLLED_BACK: Final = "ERROR"
"""Severity of an error that undid the transaction and left the session alive; above it are FATAL and PANIC.
Source: PostgreSQL 15 manual, sections 20.8.2 and 55.8 (field ``V``)."""
_TRANSACTION_ROLLBACK: Final = "40"
_LOCK_NOT_AVAILABLE: Final = "55P03"
_READ_ONLY: Final = "25006"
"""What a standby says to every change."""
_RESOURCES: Final = ("53", "58")
"""Classes of errors of the machine: no memory, no room on the disk, a disk that fails."""
# A timeout is an OSError, too.
_UNREACHABLE: Final = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)

DRIVER_ERRORS: Final = (asyncpg.PostgresError, *_UNREACHABLE)
"""All that the driver raises when something is wrong with the database or the way to it."""


class Meaning(Enum):
    """What to do about a failure."""

    AGAIN = auto()
    """Surely nothing was committed, and nobody's change is to blame: try again."""
    HOPELESS = auto()
    """Surely nothing was committed, and another attempt would meet the same: fail all."""
    BLAME = auto()
    """Surely nothing was committed, and a change may be to blame: find out which."""
    UNKNOWN = auto()
    """It may be committed."""


def meaning_of(error: BaseException, *, committing: bool) -> Meaning:
    """What `error` means; `committing` says that the commit had been sent.

    Source: PostgreSQL 15 manual, appendix A (class 40: transaction rollback; 53, 58: the machine).
    """
    if isinstance(error, asyncpg.PostgresError) and error.severity_en == _ROLLED_BACK:
        if error.sqlstate.startswith(_TRANSACTION_ROLLBACK):
            return Meaning.AGAIN
        hopeless = error.sqlstate in (_LOCK_NOT_AVAILABLE, _READ_ONLY) or error.sqlstate[:2] in _RESOURCES
        return Meaning.HOPELESS if hopeless else Meaning.BLAME
    if committing:
        return Meaning.UNKNOWN
    # A value that cannot be encoded is a ValueError, whatever else it is to the driver.
    lost = isinstance(error, DRIVER_ERRORS) and not isinstance(error, ValueError)
    return Meaning.AGAIN if lost else Meaning.BLAME
