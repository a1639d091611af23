"""What has changed since a viewer last looked."""

from __future__ import annotations

from typing import Final, Protocol

from eventclient.clock import Clock
from eventclient.devserver.journal import Journal

from .timeline import Json, Position, Timeline

LIST_PACE_S: Final = 1.0
"""The least time between two reads of the list of runs for one viewer: each costs a read for every run."""
LIST_PATIENCE_S: Final = 2.0
"""How long a list of which nothing was heard is not read: only another process can have changed it."""


class News(Protocol):
    """Something that changes."""

    async def look(self) -> Json | None:
        """What is new since the last look; None when nothing is."""


class RunsNews:
    """The latest runs: all of them at the first look, then those that are not as they were. Most looks
    read nothing: see `LIST_PACE_S`."""

    def __init__(self, timeline: Timeline, journal: Journal, clock: Clock) -> None:
        self._timeline = timeline
        self._journal = journal
        self._clock = clock
        self._seen: dict[str, Json] = {}
        self._number = -1
        self._read_at = float("-inf")

    async def look(self) -> Json | None:
        """See `News.look`."""
        number, now = self._journal.number, self._clock.now()
        if now - self._read_at < (LIST_PATIENCE_S if number == self._number else LIST_PACE_S):
            return None
        self._number, self._read_at = number, now
        runs = (await self._timeline.runs())["runs"]
        changed = [run for run in runs if self._seen.get(run["id"]) != run]
        self._seen = {run["id"]: run for run in runs}
        return {"runs": changed} if changed else None


class RunNews:
    """One run: where it stands, and the events and requests behind `position`."""

    def __init__(self, timeline: Timeline, run_id: str, position: Position) -> None:
        self._timeline = timeline
        self._run_id = run_id
        self._position = position
        self._run: Json | None = None

    async def look(self) -> Json | None:
        """See `News.look`."""
        news, position = await self._timeline.news(self._run_id, self._position)
        if position == self._position and news["run"] == self._run:
            return None
        self._position, self._run = position, news["run"]
        return news
