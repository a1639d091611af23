"""Whose write a 409 met: what was sent, compared with what the log holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS

UNKEPT_PAYLOADS: Final = frozenset({"run_started", "step_started"})
"""Types whose input belongs to the run or the step and is not kept in the log.

Source: `@workflow/world-local` 5.0.0-beta.46.
"""


_ENDS_OF_STEPS: Final = frozenset({"step_completed", "step_failed"})
_ENDS_OF_RUNS: Final = frozenset({"run_completed", "run_failed", "run_cancelled"})
_RIVALS: Final = {kind: kinds for kinds in (_ENDS_OF_STEPS, _ENDS_OF_RUNS) for kind in kinds}
"""Types of which one may stand where another was refused; all others are refused for their own kind."""


_REPEATABLE: Final = frozenset({"attr_set", "hook_received"})
"""Types that a run, or one hook, may meet many times, so that two of them may be alike in all that is
compared: they are told apart by the correlation id and the resume id that some of them have."""


class Likeness(StrEnum):
    """Whether a stored event is the one that was sent."""

    SAME = "same"
    OTHER = "other"
    UNTOLD = "cannot be told"


@dataclass(frozen=True, slots=True)
class Sent:
    """What went out of one event.

    Attributes:
        occurred_at: the instant in its frame; None when it holds none.
        payload: the frame's body; empty and absent are the same.
    """

    event_type: str
    correlation_id: str | None
    occurred_at: datetime | None
    payload: bytes
    resume_id: str | None = None


def likeness(sent: Sent, stored: StoredEvent) -> Likeness:
    """Whether `stored` is `sent`: the same type, correlation id, payload and instant.

    A server that keeps no ``occurredAt`` may date an event by it or by a clock of its own, so another
    ``createdAt`` alone says nothing. Nor does a payload that is gone: a run may drop its payloads at its end.
    """
    if stored.event_type != sent.event_type or (stored.correlation_id or None) != sent.correlation_id:
        return Likeness.OTHER
    payload = _payload_likeness(sent, stored)
    if payload is Likeness.OTHER:
        return Likeness.OTHER
    if sent.occurred_at is None or not _is_named(sent, stored):
        return Likeness.UNTOLD
    if _milliseconds(stored.occurred_at or stored.created_at) == _milliseconds(sent.occurred_at):
        return payload
    return Likeness.UNTOLD if stored.occurred_at is None else Likeness.OTHER


def _is_named(sent: Sent, stored: StoredEvent) -> bool:
    """Whether no other event can be alike in type, correlation id, payload and instant."""
    if sent.event_type not in _REPEATABLE:
        return True
    if sent.event_type == "attr_set":
        return sent.correlation_id is not None
    return sent.resume_id is not None and stored.resume_id == sent.resume_id


def _payload_likeness(sent: Sent, stored: StoredEvent) -> Likeness:
    field = EVENT_SPECS[sent.event_type].payload_field
    if field is None or sent.event_type in UNKEPT_PAYLOADS:
        return Likeness.SAME
    value = (stored.event_data or {}).get(field)
    if not value:
        return Likeness.UNTOLD if sent.payload else Likeness.SAME
    if not isinstance(value, bytes):
        return Likeness.UNTOLD
    return Likeness.SAME if value == sent.payload else Likeness.OTHER


def _milliseconds(instant: datetime) -> int:
    since = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (since // timedelta(microseconds=1) + 500) // 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """What the log says of a write.

    Attributes:
        stored: the event, where it is `SAME`.
    """

    likeness: Likeness
    stored: StoredEvent | None = None


def find(sent: Sent, log: Iterable[StoredEvent]) -> Finding:
    """Whether `log`, which must be whole, holds `sent`.

    `SAME` where one of its events is; `OTHER` where none of them can be, and one of them is what it was
    refused for; else it cannot be told: a log that shows no reason for a refusal may lag behind it.
    """
    untold = explained = False
    for stored in log:
        found = likeness(sent, stored)
        if found is Likeness.SAME:
            return Finding(found, stored)
        untold = untold or found is Likeness.UNTOLD
        explained = explained or _explains(stored, sent)
    return Finding(Likeness.OTHER if explained and not untold else Likeness.UNTOLD)


def _explains(stored: StoredEvent, sent: Sent) -> bool:
    """Whether `sent` is refused where `stored` is."""
    if stored.event_type in _ENDS_OF_RUNS:
        return True
    rivals = _RIVALS.get(sent.event_type, (sent.event_type,))
    return stored.event_type in rivals and (stored.correlation_id or None) == sent.correlation_id
