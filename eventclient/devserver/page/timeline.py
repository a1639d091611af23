"""What the page shows: the runs, a part of one run's timeline, and what has come since.

Everything here is JSON, bounded in size, and holds neither payloads nor tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from eventclient.devserver.account import MAX_NAME_CHARS
from eventclient.devserver.journal import Journal
from eventclient.devserver.run_records import Record, RunRecords
from eventclient.devserver.state import LogQuery
from eventclient.devserver.store import RunQuery, Store
from eventclient.model.entities import Run
from eventclient.wire.codec import decode
from eventclient.wire.rows import LogRow

RUNS_PAGE: Final = 50
TIMELINE_PAGE: Final = 200
MAX_PAGE: Final = 500
MAX_PLACES: Final = 1000
"""The most marks of a run whose places are told, the latest of them."""
_DETAILS: Final = ("stepName", "workflowName", "errorCode", "cancelReason", "resumeAt")
"""What is shown of an event's data: the first of these that it has."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a viewer has seen a run.

    Attributes:
        slot: the last it knows of.
        number: of the last record of a request it was told.
    """

    slot: int
    number: int


class Timeline:
    """Reads for the page.

    Args:
        store: opened.
        journal: knows which events came together, and what was refused. It begins with the server, so of
            older events neither is known.
    """

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    async def runs(self, *, after: int | None = None, limit: int = RUNS_PAGE) -> Json:
        """The latest runs, or those that are older than position `after`; ``next`` leads to more."""
        query = RunQuery(after=after, limit=limit + 1, descending=True)
        listed = await self._store.read_runs(query)
        page = listed[:limit]
        runs = [await self._run(each.entity) for each in page]
        return {"runs": runs, "next": page[-1].position if len(listed) > limit else None}

    async def run(self, run_id: str) -> Json | None:
        """One run; None when there is no such run."""
        listed = await self._store.read_runs(RunQuery(run_id=run_id))
        return await self._run(listed[0].entity) if listed else None

    async def part(self, run_id: str, first: int | None, limit: int = TIMELINE_PAGE) -> Json | None:
        """The timeline from slot `first` on, or its latest part; None when there is no such run."""
        run = await self.run(run_id)
        if run is None:
            return None
        last_slot: int = run["events"]
        if first is None:
            first = max(1, last_slot - limit + 1)
        query = LogQuery(run_id=run_id, after=first - 1, limit=limit, payloads=False)
        rows = await self._store.read_log(query) or []
        last = rows[-1].slot if rows else first - 1
        if rows:
            last_slot = max(last_slot, last)
        records = self._journal.of(run_id)
        places = {records.place_of(record, last_slot) for record in records.marked()}
        return {
            "run": run,
            "events": [_event(row) for row in rows],
            "requests": _requests(records, records.among(first, last, last_slot), last_slot),
            "tally": dict(records.tally()),
            "places": sorted(places)[-MAX_PLACES:],
            "position": {"slot": last_slot, "number": self._journal.number},
        }

    async def news(self, run_id: str, position: Position) -> tuple[Json, Position]:
        """What a viewer has not seen yet, and how far it has seen the run then."""
        query = LogQuery(run_id=run_id, after=position.slot, limit=MAX_PAGE, payloads=False)
        rows = await self._store.read_log(query) or []
        slot = rows[-1].slot if rows else position.slot
        run = await self.run(run_id)
        records = self._journal.of(run_id)
        latest = records.since(position.number)[:MAX_PAGE]
        number = latest[-1].number if latest else position.number
        news = {
            "run": run,
            "events": [_event(row) for row in rows],
            "requests": _requests(records, latest, slot),
            "tally": dict(records.tally()),
        }
        return news, Position(slot, number)

    async def _run(self, run: Run) -> Json:
        query = LogQuery(run_id=run.run_id, limit=1, descending=True, payloads=False)
        rows = await self._store.read_log(query) or []
        last = _event(rows[0]) if rows else {"slot": 0, "at": None}
        return {
            "id": run.run_id,
            "workflow": _short(run.workflow_name),
            "status": run.status,
            "events": last["slot"],
            "lastAt": last["at"],
            "createdAt": _instant(run.created_at),
            "startedAt": _instant(run.started_at),
            "completedAt": _instant(run.completed_at),
            "specVersion": run.spec_version,
            "errorCode": _short(run.error_code),
        }


def _event(row: LogRow) -> Json:
    meta = decode(row.meta)
    data = meta.get("eventData") or {}
    detail = next((data[key] for key in _DETAILS if data.get(key) is not None), None)
    return {
        "slot": row.slot,
        "type": meta["eventType"],
        "correlationId": _short(meta.get("correlationId")),
        "detail": _instant(detail) if isinstance(detail, datetime) else _short(detail),
        "at": _instant(meta["createdAt"]),
    }


def _requests(records: RunRecords, wanted: Sequence[Record], last_slot: int) -> list[Json]:
    return [
        {
            "number": record.number,
            "place": records.place_of(record, last_slot),
            "at": _instant(record.at),
            "durationMs": record.duration_ms,
            "method": record.method,
            "route": record.route,
            "status": record.status,
            "code": record.code,
            "retryAfter": record.retry_after,
            "faults": record.faults,
            "marks": record.marks,
            "events": [
                {
                    "type": event.event_type,
                    "correlationId": event.correlation_id,
                    "status": event.status,
                    "code": event.code,
                    "slot": event.slot,
                    "delivery": event.delivery,
                }
                for event in record.events
            ],
        }
        for record in wanted
    ]


def _instant(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds") if at is not None else None


def _short(name: str | None) -> str | None:
    return name[:MAX_NAME_CHARS] if name is not None else None
