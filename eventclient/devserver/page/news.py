"""What has changed since a viewer last looked."""

from __future__ import annotations

from typing import Final, Protocol

from eventclient.devserver.journal import Journal

from .timeline import Json, Position, Timeline

PATIENCE: Final = 8
"""How many looks in a row pass over a list of runs of which nothing was heard: it costs a read for each
run, and only another process can have changed it."""


class News(Protocol):
    """Something that changes."""

    async def look(self) -> Json | None:
        """What is new since the last look; None when nothing is."""


class RunsNews:
    """The latest runs: all of them at the first look, then those that are not as they were."""

    def __init__(self, timeline: Timeline, journal: Journal) -> None:
        self._timeline = timeline
        self._journal = journal
        self._seen: dict[str, Json] = {}
        self._number = -1
        self._passed = 0

    async def look(self) -> Json | None:
        """See `News.look`."""
        number = self._journal.number
        if number == self._number and self._passed < PATIENCE:
            self._passed += 1
            return None
        self._number, self._passed = number, 0
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
