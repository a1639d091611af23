"""Answers to event posts and reads: encode (the server).

Absent members are left out, never null: the reference client reads a null instant as 1970 and refuses
most other nulls. The one null is the cursor of a log part that has no position.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (what its decoders take), `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.ids import slot_event_id

from . import spec
from .codec import (
    encode_bytes,
    encode_instant,
    encode_map_header,
    encode_number,
    encode_text,
    encode_value,
)
from .frames import encode_frame
from .rows import LogRow


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a run's log that travels inside an answer.

    Attributes:
        cursor: where to read on from; None when the part is a report and has no position.
        has_more: whether events of the range asked for are missing from `rows`.
    """

    rows: tuple[LogRow, ...]
    cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What a server answers to one event it took.

    Attributes:
        row: the event as stored; for a repeat, the one stored before.
        run, step, hook, wait: the entity it changed.
        step_created: this ``step_started`` created its step.
        max_events: the most events the server allows on the run.
        log: a part of the log the caller asked for.
    """

    row: LogRow
    run: Run | None = None
    step: Step | None = None
    hook: Hook | None = None
    wait: Wait | None = None
    step_created: bool = False
    max_events: int | None = None
    log: LogPart | None = field(default=None, repr=False)

    @property
    def event(self) -> StoredEvent:
        """The event in `row`, its payload included."""
        return self.row.event()


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
    StoredEvent: frozenset(),
}
_FIELDS: Final = {
    model: tuple((name, info.alias or name, name in payloads) for name, info in model.model_fields.items())
    for model, payloads in _PAYLOADS.items()
}
_EVENT_FIELDS: Final = _FIELDS[StoredEvent]
_KEYS: Final = {key: encode_text(key) for fields in _FIELDS.values() for _, key, _ in fields}


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
    pairs = {key: value for name, key, _ in _EVENT_FIELDS if (value := getattr(event, name)) is not None}
    if event.event_data is not None and not resolve:
        pairs["eventData"] = _bare_data(event)
    return pairs


_MAX_CACHED_CHARS: Final = 128
_SMALL_NUMBERS: Final = tuple(bytes((number,)) for number in range(24))
_cached_text = lru_cache(maxsize=4096)(encode_text)
_cached_instant = lru_cache(maxsize=512)(encode_instant)


def _encode_text(text: str) -> bytes:
    # The ids and names of a batch come back in every event and entity of its answer.
    return _cached_text(text) if len(text) <= _MAX_CACHED_CHARS else encode_text(text)


def _encode_number(number: int) -> bytes:
    return _SMALL_NUMBERS[number] if 0 <= number < 24 else encode_number(number)


def _encode_map(pairs: Mapping[str, Any]) -> bytes:
    parts = [encode_map_header(len(pairs))]
    for key, value in pairs.items():
        parts.append(_encode_text(key))
        parts.append(_BY_TYPE.get(value.__class__, encode_value)(value))
    return b"".join(parts)


_BY_TYPE: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _encode_text,
    int: _encode_number,
    bytes: encode_bytes,
    datetime: _cached_instant,
    dict: _encode_map,
}
"""The types that entities are mostly made of take a straight way, at a fraction of the cost of `encode_value`."""


def encode_entity(entity: Run | Step | Hook | Wait, *, resolve: bool = True) -> bytes:
    """The bytes of `entity_map`."""
    values = entity.__dict__
    parts = [b""]
    for name, key, is_payload in _FIELDS[entity.__class__]:
        value = values[name]
        if value is not None and (resolve or not is_payload):
            parts.append(_KEYS[key])
            parts.append(_BY_TYPE.get(value.__class__, encode_value)(value))
    parts[0] = encode_map_header(len(parts) // 2)
    return b"".join(parts)


def encode_event(event: StoredEvent, *, resolve: bool = True) -> bytes:
    """The bytes of `event_map`."""
    values = event.__dict__
    parts = [b""]
    for name, key, _ in _EVENT_FIELDS:
        value = values[name]
        if value is not None:
            if name == "event_data" and not resolve:
                value = _bare_data(event)
            parts.append(_KEYS[key])
            parts.append(_BY_TYPE.get(value.__class__, encode_value)(value))
    parts[0] = encode_map_header(len(parts) // 2)
    return b"".join(parts)


def _bare_data(event: StoredEvent) -> dict[str, Any]:
    """The event data without its payload."""
    data = event.event_data or {}
    facts = EVENT_SPECS.get(event.event_type)
    hidden = facts.payload_field if facts is not None else None
    return {key: value for key, value in data.items() if key != hidden} if hidden in data else data


def encode_event_meta(event: StoredEvent) -> bytes:
    """The meta of the frame that `event` travels as: everything but its payload."""
    return encode_event(event, resolve=False)


def encode_row_meta(
    *,
    event_type: str,
    run_id: str,
    slot: int,
    created_at: datetime,
    correlation_id: str | None,
    spec_version: int | None,
    resume_id: str | None,
    event_data: dict[str, Any] | None,
) -> bytes:
    """The meta of a new row, from parts; `event_data` is without its payload. As `encode_event_meta` of
    the event that they make, which nobody has to make."""
    # The order of keys is that of the fields of an event.
    parts = [
        _row_head(event_type, run_id),
        b"geventId\x78\x1f" + slot_event_id(slot).encode(),
        b"icreatedAt" + _cached_instant(created_at),
    ]
    if correlation_id is not None:
        parts.append(b"mcorrelationId" + _encode_text(correlation_id))
    if spec_version is not None:
        parts.append(b"kspecVersion" + _encode_number(spec_version))
    if resume_id is not None:
        parts.append(b"hresumeId" + _encode_text(resume_id))
    if event_data is not None:
        parts.append(b"ieventData" + _encode_map(event_data))
    return encode_map_header(len(parts) + 1) + b"".join(parts)


@lru_cache(maxsize=256)
def _row_head(event_type: str, run_id: str) -> bytes:
    return b"ieventType" + encode_text(event_type) + b"erunId" + encode_text(run_id)


def encode_row(row: LogRow, *, resolve: bool = True) -> bytes:
    """The event of a row as it travels inside an answer; its payload only when `resolve`."""
    return encode_event(row.event()) if resolve and row.payload else row.meta


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


_TAKEN: Final = ("status", encode_number(200))


def encode_written(written: Written, *, resolve: bool) -> bytes:
    """The answer to a single post."""
    return _encode_pairs(_written_pairs(written, resolve))


def encode_results(results: Sequence[Written | Refused], resolves: Iterable[bool]) -> bytes:
    """The answer to a batch: one result per frame, in order; `resolves` says for each whether it asked
    for payloads."""
    items = []
    for result, resolve in zip(results, resolves, strict=True):
        if isinstance(result, Written):
            items.append(_encode_pairs([_TAKEN, *_written_pairs(result, resolve)]))
        else:
            refused = {"status": result.status, "error": result.code, "message": result.message}
            items.append(encode_value(refused))
    return _encode_pairs([("results", encode_array(items))])


def _written_pairs(written: Written, resolve: bool) -> list[tuple[str, bytes]]:
    pairs = [("event", encode_row(written.row, resolve=resolve))]
    for key, entity in (
        ("run", written.run),
        ("step", written.step),
        ("hook", written.hook),
        ("wait", written.wait),
    ):
        if entity is not None:
            pairs.append((key, encode_entity(entity, resolve=resolve)))
    if written.step_created:
        pairs.append(("stepCreated", encode_value(True)))
    if written.max_events is not None:
        pairs.append(("maxEvents", encode_number(written.max_events)))
    if written.log is not None:
        # The part feeds a replay, which needs the payloads whatever the post itself asked for.
        events = [encode_row(row) for row in written.log.rows]
        pairs.append(("events", encode_array(events)))
        pairs.append(("cursor", encode_value(written.log.cursor)))
        pairs.append(("hasMore", encode_value(written.log.has_more)))
    return pairs


def _encode_pairs(pairs: Sequence[tuple[str, bytes]]) -> bytes:
    parts = [encode_map_header(len(pairs))]
    for key, value in pairs:
        parts += (_encode_text(key), value)
    return b"".join(parts)


def encode_array(items: Sequence[bytes]) -> bytes:
    """An array of encoded items."""
    count = len(items)
    if count < 24:
        header = bytes((0x80 | count,))
    else:
        header = bytes((0x98, count)) if count < 0x100 else b"\x99" + count.to_bytes(2, "big")
    return b"".join((header, *items))
