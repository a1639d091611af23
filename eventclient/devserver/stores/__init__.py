"""Where the reference server keeps its state: one file per kind of store, one row in `STORES` for each.

May import: wire, model, errors and the engine of the server, whose `Store` protocol they fulfil.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from eventclient.devserver.store import Store

from .sqlite import SqliteStore

STORES: Final[Mapping[str, Callable[[str], Store]]] = MappingProxyType({"sqlite": SqliteStore})
"""Kind of store -> what opens one at a place. For ``sqlite`` the place is a file, or ``:memory:``."""
