from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]
import pytest

from eventclient.devserver.stores.postgres_failures import Meaning, meaning_of


def told(code: str, severity: str) -> BaseException:
    """What the server said, as the driver raises it."""
    error: BaseException = asyncpg.PostgresError.new({"C": code, "V": severity, "M": "said"})
    return error


@pytest.mark.parametrize(
    ("error", "before", "at_commit"),
    [
        (told("40001", "ERROR"), Meaning.AGAIN, Meaning.AGAIN),
        (told("40P01", "ERROR"), Meaning.AGAIN, Meaning.AGAIN),
        (told("23505", "ERROR"), Meaning.BLAME, Meaning.BLAME),
        (told("53100", "ERROR"), Meaning.HOPELESS, Meaning.HOPELESS),
        (told("58030", "ERROR"), Meaning.HOPELESS, Meaning.HOPELESS),
        (told("25006", "ERROR"), Meaning.HOPELESS, Meaning.HOPELESS),
        (told("54000", "ERROR"), Meaning.BLAME, Meaning.BLAME),
        (told("55P03", "ERROR"), Meaning.HOPELESS, Meaning.HOPELESS),
        (told("57P01", "FATAL"), Meaning.AGAIN, Meaning.UNKNOWN),
        (told("57P02", "FATAL"), Meaning.AGAIN, Meaning.UNKNOWN),
        (told("25P03", "FATAL"), Meaning.AGAIN, Meaning.UNKNOWN),
        (told("40001", "FATAL"), Meaning.AGAIN, Meaning.UNKNOWN),
        (told("XX000", "PANIC"), Meaning.AGAIN, Meaning.UNKNOWN),
        (asyncpg.ConnectionDoesNotExistError("lost"), Meaning.AGAIN, Meaning.UNKNOWN),
        (asyncpg.InterfaceError("the connection is closed"), Meaning.AGAIN, Meaning.UNKNOWN),
        (ConnectionResetError(), Meaning.AGAIN, Meaning.UNKNOWN),
        (TimeoutError(), Meaning.AGAIN, Meaning.UNKNOWN),
        (asyncpg.exceptions._base.DataError("no such value"), Meaning.BLAME, Meaning.UNKNOWN),
        (LookupError(), Meaning.BLAME, Meaning.UNKNOWN),
    ],
    ids=repr,
)
def test_a_failure_means_one_thing(error: BaseException, before: Meaning, at_commit: Meaning) -> None:
    assert meaning_of(error, committing=False) is before
    assert meaning_of(error, committing=True) is at_commit
