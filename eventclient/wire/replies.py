"""Answers to event posts and reads: encode (the server).

Absent members are left out, never null: the reference client reads a null instant as 1970 and refuses
most other nulls. The one null is the cursor of a log part that has no position.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (what its decoders take), `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.events import EVENT_SPECS

from . import spec
from .codec import encode_frame, encode_value


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a run's log that travels inside an answer.

    Attributes:
        cursor: where to read on from; None when the part is a report and has no position.
        has_more: whether events of the range asked for are missing from `events`.
    """

    events: tuple[StoredEvent, ...]
    cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What a server answers to one event it took.

    Attributes:
        event: the event as stored; for a repeat, the one stored before.
        run, step, hook, wait: the entity it changed.
        step_created: this ``step_started`` created its step.
        max_events: the most events the server allows on the run.
        log: a part of the log the caller asked for.
    """

    event: StoredEvent
    run: Run | None = None
    step: Step | None = None
    hook: Hook | None = None
    wait: Wait | None = None
    step_created: bool = False
    max_events: int | None = None
    log: LogPart | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """What a server answers to one event, or one request, it did not take.

    Attributes:
        status: HTTP status.
        code: for programs, kebab-case.
        message: for people; holds no payload and no token.
        retry_after_s: whole seconds after which it may be taken.
    """

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


_PAYLOADS: Final[Mapping[type[BaseModel], frozenset[str]]] = {
    Run: frozenset({"input", "output", "error"}),
    Step: frozenset({"input", "output", "error"}),
    Hook: frozenset({"metadata"}),
    Wait: frozenset(),
}
_FIELDS: Final = {
    model: tuple((name, info.alias or name, name in payloads) for name, info in model.model_fields.items())
    for model, payloads in _PAYLOADS.items()
}


def entity_map(entity: Run | Step | Hook | Wait, *, resolve: bool = True) -> dict[str, Any]:
    """A run, step, hook or wait as it travels; its payloads only when `resolve`."""
    pairs = {}
    for name, key, is_payload in _FIELDS[type(entity)]:
        value = getattr(entity, name)
        if value is not None and (resolve or not is_payload):
            pairs[key] = value
    return pairs


def event_map(event: StoredEvent, *, resolve: bool = True) -> dict[str, Any]:
    """A stored event as it travels; its payload only when `resolve`."""
    pairs: dict[str, Any] = {
        "eventType": event.event_type,
        "runId": event.run_id,
        "eventId": event.event_id,
        "createdAt": event.created_at,
    }
    for key, value in (
        ("correlationId", event.correlation_id),
        ("specVersion", event.spec_version),
        ("occurredAt", event.occurred_at),
        ("resumeId", event.resume_id),
    ):
        if value is not None:
            pairs[key] = value
    if event.event_data is not None:
        facts = EVENT_SPECS.get(event.event_type)
        hidden = None if resolve or facts is None else facts.payload_field
        pairs["eventData"] = {key: value for key, value in event.event_data.items() if key != hidden}
    return pairs


def encode_event_meta(event: StoredEvent) -> bytes:
    """The meta of the frame that `event` travels as: everything but its payload."""
    return encode_value(event_map(event, resolve=False))


def encode_event_frame(meta: bytes, payload: bytes, *, resolve: bool = True) -> bytes:
    """The frame of an event from its encoded meta and its payload, which only `resolve` lets in."""
    return encode_frame(meta, payload if resolve else b"")


def encode_end_frame(cursor: str | None, *, has_more: bool) -> bytes:
    """The frame that ends a stream; `cursor` is where to read on from, if there is any position."""
    meta: dict[str, Any] = {spec.KEY_END: 1}
    if cursor is not None:
        meta["next"] = cursor
    meta["hasMore"] = has_more
    return encode_frame(encode_value(meta), b"")


def encode_error_frame(code: str, message: str | None = None) -> bytes:
    """The frame that says a stream cannot be finished."""
    meta: dict[str, Any] = {spec.KEY_ERROR: 1, "code": code}
    if message is not None:
        meta["message"] = message
    return encode_frame(encode_value(meta), b"")


def encode_written(written: Written, *, resolve: bool) -> bytes:
    """The answer to a single post."""
    return encode_value(_written_map(written, resolve))


def encode_results(results: Sequence[Written | Refused], resolves: Iterable[bool]) -> bytes:
    """The answer to a batch: one result per frame, in order; `resolves` says for each whether it asked
    for payloads."""
    items = [
        {"status": 200, **_written_map(result, resolve)}
        if isinstance(result, Written)
        else {"status": result.status, "error": result.code, "message": result.message}
        for result, resolve in zip(results, resolves, strict=True)
    ]
    return encode_value({"results": items})


def _written_map(written: Written, resolve: bool) -> dict[str, Any]:
    pairs: dict[str, Any] = {"event": event_map(written.event, resolve=resolve)}
    for key, entity in (
        ("run", written.run),
        ("step", written.step),
        ("hook", written.hook),
        ("wait", written.wait),
    ):
        if entity is not None:
            pairs[key] = entity_map(entity, resolve=resolve)
    if written.step_created:
        pairs["stepCreated"] = True
    if written.max_events is not None:
        pairs["maxEvents"] = written.max_events
    if written.log is not None:
        # The part feeds a replay, which needs the payloads whatever the post itself asked for.
        pairs["events"] = [event_map(event) for event in written.log.events]
        pairs["cursor"] = written.log.cursor
        pairs["hasMore"] = written.log.has_more
    return pairs
