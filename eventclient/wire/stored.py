"""Stored events and entities as they travel: encode (the server).

Absent members are left out, never null: the reference client reads a null instant as 1970 and refuses
most other nulls.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (what its decoders take), `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.ids import slot_event_id

from .codec import encode_number, encode_value
from .items import encode_bytes, encode_instant, encode_map_header, encode_text

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
_NAMES: Final = {name: encode_text(key) for fields in _FIELDS.values() for name, key, _ in fields}
_NOTHING: Final[frozenset[str]] = frozenset()


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


def encode_name(text: str) -> bytes:
    """Text that is likely to be encoded again soon: the ids and names of a batch come back in every event
    and entity of its answer."""
    return _cached_text(text) if len(text) <= _MAX_CACHED_CHARS else encode_text(text)


def _encode_number(number: int) -> bytes:
    return _SMALL_NUMBERS[number] if 0 <= number < 24 else encode_number(number)


def _encode_map(pairs: Mapping[str, Any]) -> bytes:
    parts = [encode_map_header(len(pairs))]
    for key, value in pairs.items():
        parts.append(encode_name(key))
        parts.append(_BY_TYPE.get(value.__class__, encode_value)(value))
    return b"".join(parts)


_BY_TYPE: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: encode_name,
    int: _encode_number,
    bytes: encode_bytes,
    datetime: _cached_instant,
    dict: _encode_map,
}
"""The types that entities are mostly made of take a straight way, at a fraction of the cost of
`encode_value`."""


def encode_entity(entity: Run | Step | Hook | Wait, *, resolve: bool = True) -> bytes:
    """A run, step, hook or wait as it travels; its payloads only when `resolve`."""
    hidden = _NOTHING if resolve else _PAYLOADS[entity.__class__]
    parts = []
    for name, value in entity.__dict__.items():
        if value is None or name in hidden:
            continue
        kind = value.__class__
        if kind is str and len(value) <= _MAX_CACHED_CHARS:
            parts.append(_NAMES[name] + _cached_text(value))
        else:
            parts.append(_NAMES[name] + _BY_TYPE.get(kind, encode_value)(value))
    return encode_map_header(len(parts)) + b"".join(parts)


def encode_event(event: StoredEvent, *, resolve: bool = True) -> bytes:
    """The bytes of `event_map`."""
    return _encode_map(event_map(event, resolve=resolve))


def _bare_data(event: StoredEvent) -> dict[str, Any]:
    """The event data without its payload."""
    data = event.event_data or {}
    facts = EVENT_SPECS.get(event.event_type)
    hidden = facts.payload_field if facts is not None else None
    return {key: value for key, value in data.items() if key != hidden} if hidden in data else data


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
    """The meta of a new row, from parts; `event_data` is without its payload. The bytes of `encode_event`
    without the payload for the event that they make, which nobody has to make."""
    # The order of keys is that of the fields of an event.
    parts = [
        _row_head(event_type, run_id),
        b"geventId\x78\x1f" + slot_event_id(slot).encode(),
        b"icreatedAt" + _cached_instant(created_at),
    ]
    if correlation_id is not None:
        parts.append(b"mcorrelationId" + encode_name(correlation_id))
    if spec_version is not None:
        parts.append(b"kspecVersion" + _encode_number(spec_version))
    if resume_id is not None:
        parts.append(b"hresumeId" + encode_name(resume_id))
    if event_data is not None:
        parts.append(b"ieventData" + _encode_map(event_data))
    return encode_map_header(len(parts) + 1) + b"".join(parts)


@lru_cache(maxsize=256)
def _row_head(event_type: str, run_id: str) -> bytes:
    return b"ieventType" + encode_text(event_type) + b"erunId" + encode_text(run_id)
