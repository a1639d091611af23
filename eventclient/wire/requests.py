"""Event posts in bytes, as a client encodes them; `posted` decodes them for a server.

Source of the meta keys, their renames and when each is sent: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from eventclient.errors import InvalidEventError
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event

from . import spec
from .codec import encode_number, encode_value
from .frames import encode_frame
from .items import UnencodableError, encode_instant, encode_map_header, encode_text
from .params import NO_PARAMS, ResolveData, WriteParams

_T = TypeVar("_T")

META_RENAMES: Final[Mapping[str, str]] = {
    "token": "hookToken",
    "tokenRetentionUntil": "hookTokenRetentionUntil",
    "isWebhook": "hookIsWebhook",
    "isSystem": "hookIsSystem",
}
"""Fields of eventData that have another name in the meta."""

RESOLVED_SINGLES: Final = frozenset({"run_created", "run_started", "step_started"})
"""Single posts of these types ask for payloads in the answer; all other posts do not."""


def _pair(key: str, value: bytes) -> bytes:
    return encode_text(key) + value


_REF: Final = {
    behavior: _pair("remoteRefBehavior", encode_text(behavior)) for behavior in ("lazy", "resolve")
}
_SPEC_VERSION: Final = {version: _pair("specVersion", encode_number(version)) for version in range(16)}
_OCCURRED_AT: Final = encode_text("occurredAt")
_CORRELATION_ID: Final = encode_text("correlationId")
_COMPUTE_INSTANCE_ID: Final = encode_text("computeInstanceId")
_TRUE: Final = b"\xf5"
_FALSE: Final = b"\xf4"

_REPEATING: Final = frozenset({"stepName", "workflowName", "deploymentId"})
"""Fields whose few values come again and again, so that their bytes are worth keeping."""
_encode_name = lru_cache(maxsize=512)(encode_text)


@lru_cache(maxsize=64)
def _encode_occurred(instant: datetime) -> bytes:
    # Events that name no time of their own share the instant of the call.
    return _OCCURRED_AT + encode_instant(instant)


_BY_TYPE: Final[dict[type, Callable[[Any], bytes]]] = {
    int: encode_number,
    float: encode_number,
    bool: lambda value: _TRUE if value else _FALSE,
    datetime: encode_instant,
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the encoder knows of a type before it sees an event.

    Attributes:
        head: the pair of the event type.
        fields: by attribute of the data model: encoded meta key, dotted name for errors, encoder of a text.
        payload: attribute of the data model that travels as the body.
    """

    head: bytes
    fields: Mapping[str, tuple[bytes, str, Callable[[str], bytes]]]
    payload: str | None
    resolved_single: bool


def _plan(event_type: str) -> _Plan:
    facts = EVENT_SPECS[event_type]
    data_model = facts.model.model_fields["event_data"].annotation
    if not (isinstance(data_model, type) and issubclass(data_model, BaseModel)):
        raise TypeError(f"{event_type} has no data model")
    fields = {}
    for attribute, field in data_model.model_fields.items():
        name = field.alias or attribute
        if name != facts.payload_field:
            key = encode_text(META_RENAMES.get(name, name))
            text = _encode_name if name in _REPEATING else encode_text
            fields[attribute] = (key, f"eventData.{name}", text)
    head = _pair("eventType", encode_text(event_type))
    return _Plan(head, fields, facts.payload_field, event_type in RESOLVED_SINGLES)


_PLANS: Final = {event_type: _plan(event_type) for event_type in EVENT_SPECS}


class EncodedEvent:
    """An event in bytes: its frame as it stands in a batch.

    A single post differs in one pair of the meta, which stands last, so its frame is made from this one.
    """

    __slots__ = ("_frame", "_resolved_single")

    def __init__(self, frame: bytes, resolved_single: bool) -> None:
        self._frame = frame
        self._resolved_single = resolved_single

    def batch_frame_bytes(self, resolve_data: ResolveData | None = None) -> int:
        """Size of `batch_frame` in bytes, its length prefixes included."""
        extra = len(_REF["resolve"]) - len(_REF["lazy"]) if resolve_data == "all" else 0
        return len(self._frame) + extra

    def batch_frame(self, resolve_data: ResolveData | None = None) -> bytes:
        """The frame as it stands in a batch."""
        return self._resolved() if resolve_data == "all" else self._frame

    def single_frame(self) -> bytes:
        """The frame as it stands alone."""
        return self._resolved() if self._resolved_single else self._frame

    def _resolved(self) -> bytes:
        meta_end = spec.LENGTH_BYTES + int.from_bytes(self._frame[: spec.LENGTH_BYTES], "big")
        meta = self._frame[spec.LENGTH_BYTES : meta_end].removesuffix(_REF["lazy"]) + _REF["resolve"]
        return encode_frame(meta, self._frame[meta_end + spec.LENGTH_BYTES :])


def encode_event(
    event: Event, *, now: datetime, params: WriteParams = NO_PARAMS, batch: bool = False
) -> EncodedEvent:
    """`event` in bytes.

    Args:
        event: what `parse_event` or an event class made.
        now: the instant for an event that names none, aware.
        params: what the caller says beside it.
        batch: whether it goes in a batch, where an empty computeInstanceId is kept.

    Raises:
        InvalidEventError: names the field that cannot be sent and why.
    """
    # Reading the models' own dictionaries is half the price of reading their attributes.
    own = event.__dict__
    plan = _PLANS[own["event_type"]]
    version = own["spec_version"]
    field = "specVersion"
    try:
        pair = _SPEC_VERSION.get(spec.DEFAULT_SPEC_VERSION if version is None else version)
        parts = [plan.head, pair or _pair("specVersion", encode_number(version or 0))]
        field = "correlationId"
        if own["correlation_id"]:
            parts.append(_CORRELATION_ID + encode_text(own["correlation_id"]))
        field = "occurredAt"
        parts.append(_encode_occurred(own["occurred_at"] or now))
        field = "computeInstanceId"
        instance = own["compute_instance_id"]
        if instance is not None and (instance or batch):
            parts.append(_COMPUTE_INSTANCE_ID + encode_text(instance))
        data = own["event_data"]
        values = data.__dict__
        # What was not given is None, so only what was given needs a look.
        for attribute in data.__pydantic_fields_set__:
            value = values[attribute]
            if value is None or attribute == plan.payload:
                continue
            key, field, text = plan.fields[attribute]
            if value.__class__ is str:
                parts.append(key + text(value))
            else:
                encode = _BY_TYPE.get(value.__class__)
                parts.append(key + (encode(value) if encode is not None else _encode_field(value, field)))
        if params is not NO_PARAMS:
            field = "params"
            parts += _encode_params(params)
    except UnencodableError as error:
        path = f"{field}.{error.path}" if error.path else field
        raise InvalidEventError(error.reason, field=path) from None
    if plan.head is _ATTR_SET:
        _check_attributes(event)
    body = values[plan.payload] if plan.payload is not None else b""
    if body.__class__ is not bytes:
        raise InvalidEventError(
            f"must be bytes, not {type(body).__name__}", field=f"eventData.{plan.payload}"
        )
    parts.append(_REF["lazy"])
    meta = encode_map_header(len(parts)) + b"".join(parts)
    return EncodedEvent(encode_frame(meta, body), plan.resolved_single)


_ATTR_SET: Final = _PLANS["attr_set"].head


def _encode_field(value: object, name: str) -> bytes:
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True)
    elif isinstance(value, list):
        value = [item.model_dump(by_alias=True) if isinstance(item, BaseModel) else item for item in value]
    data = encode_value(value)
    if name == "eventData.executionContext" and len(data) > spec.MAX_EXECUTION_CONTEXT_BYTES:
        raise UnencodableError(
            f"is {len(data)} bytes encoded; the server takes {spec.MAX_EXECUTION_CONTEXT_BYTES}"
        )
    return data


def _encode_params(params: WriteParams) -> list[bytes]:
    pairs: list[bytes] = []
    for key, text in (
        ("vercelId", params.request_id),
        ("sinceCursor", params.since_cursor),
        ("resumeId", params.resume_id),
        ("resumePayloadDigest", params.resume_payload_digest),
    ):
        if text:
            pairs.append(_pair(key, encode_text(text)))
    for key, count in (
        ("maxSlot", params.event_count),
        ("replayDivergenceCount", params.replay_divergence_count),
    ):
        if count is not None:
            pairs.append(_pair(key, encode_number(count)))
    for key, flag in (
        ("skipPreload", params.skip_preload),
        ("viaStepDispatch", params.via_step_dispatch),
    ):
        if flag:
            pairs.append(_pair(key, _TRUE))
    return pairs


def _check_attributes(event: Event) -> None:
    data = event.event_data.model_dump(by_alias=True, exclude_none=False)
    if data.get("allowReservedAttributes") is None:
        data.pop("allowReservedAttributes", None)
    size = len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
    if size > spec.MAX_ATTRIBUTE_EVENT_BYTES:
        raise InvalidEventError(
            f"is {size} bytes as JSON; the server takes {spec.MAX_ATTRIBUTE_EVENT_BYTES}",
            field="eventData",
        )
