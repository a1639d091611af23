"""Logs that other programs wrote, posted event by event, have to come out as they were written."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from eventclient.devserver.engine import Engine
from eventclient.devserver.state import LogQuery, Wanted
from eventclient.devserver.store import Decision
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.wire.codec import decode
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused, Written
from eventclient.wire.stored import encode_entity
from tests.support.fake_clock import FakeClock

RECORDINGS: Final = Path(__file__).parent.parent / "recordings"
FOLDERS: Final = ("js-spec7-fanout", "js-spec7-mixed")
DATES: Final = ("resumeAt", "retryAfter", "tokenRetentionUntil")


def read(path: Path) -> dict[str, Any]:
    def restore(value: dict[str, Any]) -> Any:
        return base64.b64decode(value["data"]) if value.get("__type") == "Uint8Array" else value

    content: dict[str, Any] = json.loads(path.read_text(), object_hook=restore)
    return content


def recorded_runs() -> list[tuple[str, str]]:
    return [
        (folder, path.stem)
        for folder in FOLDERS
        for path in sorted((RECORDINGS / folder / "runs").glob("*.json"))
    ]


def posted(row: dict[str, Any]) -> PostedEvent:
    data = dict(row.get("eventData") or {})
    for name in DATES:
        if name in data:
            data[name] = datetime.fromisoformat(data[name])
    payload_field = EVENT_SPECS[row["eventType"]].payload_field
    return PostedEvent(
        row["eventType"],
        data,
        data.get(payload_field, b""),
        spec_version=row["specVersion"],
        correlation_id=row.get("correlationId"),
        occurred_at=datetime.fromisoformat(row["createdAt"]),
    )


@pytest.mark.parametrize(("folder", "run_id"), recorded_runs())
async def test_a_recorded_run_comes_out_as_it_was_recorded(folder: str, run_id: str) -> None:
    files = sorted((RECORDINGS / folder / "events").glob(f"{run_id}-*.json"))
    rows = [read(path) for path in files]
    assert len(rows) > 5
    store = SqliteStore()
    await store.open()
    # Long after the recording: no step of it has to wait any more.
    engine = Engine(store, FakeClock(start=datetime.fromisoformat("2100-01-01T00:00:00Z")))
    for row in rows:
        written = await engine.create(run_id, posted(row))
        assert isinstance(written, Written), written
        assert written.event.event_id == row["eventId"]
    log = await store.read_log(LogQuery(run_id=run_id))
    assert log is not None
    for row, stored in zip(rows, (entry.event() for entry in log), strict=True):
        assert stored.created_at == datetime.fromisoformat(row["createdAt"])
        assert (stored.event_data or {}) == posted(row).event_data
    steps = {path.stem.removeprefix(f"{run_id}-"): read(path) for path in step_files(folder, run_id)}
    state = await store.change(Wanted(run_id=run_id, steps=frozenset(steps)), Decision)
    assert state.run is not None
    assert state.run.status == read(RECORDINGS / folder / "runs" / f"{run_id}.json")["status"]
    assert set(state.steps) == set(steps)
    for name, step in state.steps.items():
        for member in ("stepName", "status", "attempt", "input", "output", "error"):
            assert decode(encode_entity(step)).get(member) == steps[name].get(member), (name, member)
    await store.aclose()


def step_files(folder: str, run_id: str) -> list[Path]:
    return sorted((RECORDINGS / folder / "steps").glob(f"{run_id}-*.json"))


async def test_a_recorded_run_posted_again_is_refused_but_for_what_does_not_converge() -> None:
    folder, run_id = recorded_runs()[0]
    rows = [read(path) for path in sorted((RECORDINGS / folder / "events").glob(f"{run_id}-*.json"))]
    store = SqliteStore()
    await store.open()
    engine = Engine(store, FakeClock())
    for row in rows:
        await engine.create(run_id, posted(row))
    for row in rows:
        again = await engine.create(run_id, posted(row))
        assert isinstance(again, Refused)
        assert again.status == (410 if row["eventType"] == "run_started" else 409)
    log = await store.read_log(LogQuery(run_id=run_id))
    assert log is not None
    assert len(log) == len(rows)
    await store.aclose()
