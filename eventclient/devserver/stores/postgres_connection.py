"""What the PostgreSQL store asks of its driver."""

from __future__ import annotations

from typing import Any, Protocol

Row = tuple[Any, ...]


class Connection(Protocol):
    """What is asked of a connection of the driver."""

    async def execute(self, query: str, *arguments: object) -> str:
        """Run a statement, or several that take no arguments; the tag of the last."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        """All rows."""

    async def fetchval(self, query: str, *arguments: object) -> Any:
        """The first column of the first row; None when there is no row."""

    def is_closed(self) -> bool:
        """Whether the connection is gone."""
