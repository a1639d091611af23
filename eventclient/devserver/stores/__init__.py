"""Where the reference server keeps its state: one file per kind of store, one row in `STORES` for each.

May import: wire, model, errors and of the server what is beside this folder: `store` declares the `Store`
protocol that they fulfil.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from eventclient.devserver.store import Store
from eventclient.errors import ConfigurationError

from .sqlite import SqliteStore


def _postgres_store(dsn: str) -> Store:
    """A `PostgresStore`.

    Raises:
        ConfigurationError: its driver is not installed.
    """
    try:
        from .postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ConfigurationError(
            "PostgreSQL needs the extra 'postgres': pip install 'eventclient[postgres]'"
        ) from error
    return PostgresStore(dsn)


STORES: Final[Mapping[str, Callable[[str], Store]]] = MappingProxyType(
    {"sqlite": SqliteStore, "postgresql": _postgres_store}
)
"""Kind of store -> what makes one for a place. For ``sqlite`` the place is a file, or ``:memory:``; for
``postgresql`` it is a DSN."""
