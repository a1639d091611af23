"""What happened, in order: kept as it comes, put into words only when somebody wants to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator


class Trace:
    """Lines of ``virtual time, who, what``."""

    def __init__(self) -> None:
        self._notes: list[tuple[float, str, str, tuple[object, ...]]] = []

    def note(self, who: str, what: str, *parts: object) -> None:
        """`what` with ``{}`` for each of `parts`."""
        self._notes.append((asyncio.get_running_loop().time(), who, what, parts))

    def lines(self) -> Iterator[str]:
        """The notes in words."""
        for at_s, who, what, parts in self._notes:
            yield f"{at_s:12.6f}  {who:<14} {what.format(*parts)}"
