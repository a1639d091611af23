"""Stored events, courses and answers for the tests of the drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy

from eventclient.client.transport import Answer
from eventclient.drill.course import Course
from eventclient.drill.faults import Way
from eventclient.drill.kinds import KINDS, Kind
from eventclient.drill.plan import Operation
from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import payload_field, payload_of
from eventclient.model.events import Event
from eventclient.model.ids import slot_event_id

RUN: Final = "wrun_01M8N3CBJFGCK98VP8CKHQXT84"
_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def kind(name: str) -> Kind:
    """The kind of that name."""
    return next(kind for kind in KINDS if kind.name == name)


def course(name: str = "step_retrying", way: Way | None = None, *, index: int = 0) -> Course:
    """The course of an operation that has not begun."""
    return Course(Operation(index, f"drill-7-{index}", kind(name), way), RUN)


def stored(event: Event, slot: int) -> StoredEvent:
    """`event` as a log holds it."""
    data = event.event_data.model_dump(by_alias=True, exclude_none=True)
    field = payload_field(event)
    if field is not None:
        data[field] = payload_of(event)
    return row(event.event_type, slot, event.correlation_id, data)


def row(
    event_type: str, slot: int, correlation_id: str | None = None, data: dict[str, Any] | None = None
) -> StoredEvent:
    """A stored event."""
    return StoredEvent(
        event_type=event_type,
        run_id=RUN,
        event_id=slot_event_id(slot),
        created_at=_AT,
        correlation_id=correlation_id,
        event_data=data,
    )


def log(*writes: Sequence[Event]) -> list[StoredEvent]:
    """A log that holds `writes`, one after the other."""
    events = [event for write in writes for event in write]
    return [stored(event, slot) for slot, event in enumerate(events, 1)]


def answer(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    """An answer in hand."""
    return Answer(status, CIMultiDictProxy(CIMultiDict(headers or {})), body)


def refusal(status: int, code: str) -> Answer:
    """An answer that says why."""
    body = f'{{"message": "no", "code": "{code}"}}'.encode()
    return answer(status, body, {"Content-Type": "application/json"})
