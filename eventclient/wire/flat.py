"""Flat bodies: one CBOR map for an event with its payload inside, and pages of whole entities.

The older routes speak them: their posts and lists of events, and the reads of runs, steps and hooks.

Source: `vercel-workflow` 0.12.0 (what it posts, and what its models take), `@workflow/world-vercel`
5.0.0-beta.50.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from eventclient.model.event_specs import EVENT_SPECS

from .codec import MalformedError, decode, encode_value
from .items import UnencodableError, encode_map_header, encode_text
from .posted import PARAM_KEYS, PostedEvent, build_event
from .replies import Written, encode_array, encode_written
from .rows import LogRow
from .stored import encode_event

_ALWAYS_PRESENT: Final = {
    event_type: facts.payload_field
    for event_type, facts in EVENT_SPECS.items()
    if facts.payload_field is not None and facts.data_required and event_type != "hook_created"
}
"""Payloads without which the Python models refuse an event, and with it the page it came in."""


def decode_map(body: bytes) -> dict[str, Any]:
    """The CBOR map that a request body is.

    Raises:
        MalformedError: it is no CBOR map.
    """
    value = decode(body, inert=True)
    if not isinstance(value, dict):
        raise MalformedError(f"the body is {type(value).__name__}, not a map")
    return value


def decode_flat_event(body: bytes) -> PostedEvent:
    """The event that a flat request body posts.

    A payload that is no byte string, as runs of old have them, becomes its CBOR: so an error that is a
    map of message and stack is read by clients of any age.

    Raises:
        MalformedError: the body is no map, has no event type, or has a value of the wrong type.
    """
    fields = decode_map(body)
    params = {key: fields[key] for key in PARAM_KEYS if fields.get(key) is not None}
    event_data = fields.get("eventData")
    if event_data is not None and not isinstance(event_data, dict):
        raise MalformedError(f"eventData is {type(event_data).__name__}, not a map")
    data = {key: value for key, value in (event_data or {}).items() if value is not None}
    event_type = params.get("eventType")
    facts = EVENT_SPECS.get(event_type) if isinstance(event_type, str) else None
    payload = data.pop(facts.payload_field, b"") if facts is not None and facts.payload_field else b""
    return build_event(params, data, encode_payload(payload))


def encode_payload(payload: object) -> bytes:
    """The bytes that a payload is kept as.

    Raises:
        MalformedError: it holds what the protocol does not carry.
    """
    if isinstance(payload, bytes):
        return payload
    try:
        return encode_value(payload)
    except UnencodableError as error:
        raise MalformedError(f"the payload is no value the protocol carries: {error}") from None


def encode_flat_written(written: Written, *, resolve: bool) -> bytes:
    """The answer to a flat post; payloads only when `resolve`."""
    row = written.row
    if resolve and not row.payload:
        written = replace(written, row=replace(row, meta=encode_flat_row(row, resolve=True)))
    return encode_written(written, resolve=resolve)


def encode_flat_row(row: LogRow, *, resolve: bool) -> bytes:
    """An event as a flat page carries it; its payload only when `resolve`."""
    if not resolve:
        return row.meta
    event = row.event()
    field = _ALWAYS_PRESENT.get(event.event_type)
    data = event.event_data or {}
    if field is not None and field not in data:
        event = event.model_copy(update={"event_data": {**data, field: b""}})
    return encode_event(event)


def encode_page(items: Sequence[bytes], *, cursor: str | None, has_more: bool) -> bytes:
    """A page of encoded items: at most 65535.

    Args:
        cursor: where to read on from; None when there is no position. The key is there in any case.
        has_more: whether there are items behind this page.
    """
    return b"".join(
        (
            encode_map_header(3),
            encode_text("data"),
            encode_array(items),
            encode_text("cursor"),
            encode_value(cursor),
            encode_text("hasMore"),
            encode_value(has_more),
        )
    )
