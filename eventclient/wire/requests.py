"""Event posts: encode (the client) and decode (the server), side by side.

Source of the meta keys, their renames and when each is sent: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel

from eventclient.errors import InvalidEventError
from eventclient.model.entities import read_instant
from eventclient.model.events import EVENT_SPECS, Event, payload_of

from . import spec
from .codec import (
    Frame,
    MalformedError,
    UnencodableError,
    encode_frame,
    encode_instant,
    encode_map_header,
    encode_number,
    encode_text,
    encode_value,
)

ResolveData = Literal["all", "none"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParams:
    """What a caller may say beside an event. Each is sent only when given.

    Attributes:
        request_id: ``vercelId``, the caller's own request.
        resolve_data: ``"all"`` makes a batch answer hold payloads.
        event_count: ``maxSlot``, the highest slot the caller has loaded; 0 is allowed.
        since_cursor: ask for the part of the log behind this cursor.
        resume_id, resume_payload_digest: the pair that makes a ``hook_received`` safe to repeat.
        skip_preload: a ``run_started`` answered without the log.
        via_step_dispatch: a queue consumer makes sure that the step exists.
        replay_divergence_count: telemetry after a recovery.
    """

    request_id: str | None = None
    resolve_data: ResolveData | None = None
    event_count: int | None = None
    since_cursor: str | None = None
    resume_id: str | None = None
    resume_payload_digest: str | None = None
    skip_preload: bool = False
    via_step_dispatch: bool = False
    replay_divergence_count: int | None = None


NO_PARAMS: Final = WriteParams()


# -- encode ------------------------------------------------------------------------------------


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

_BY_TYPE: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: encode_text,
    int: encode_number,
    float: encode_number,
    bool: lambda value: _TRUE if value else _FALSE,
    datetime: encode_instant,
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the encoder knows of a type before it sees an event."""

    event_type: bytes
    fields: tuple[tuple[str, bytes, str], ...]
    """Attribute of the data model, encoded meta key, dotted name for errors."""
    resolved_single: bool


def _plan(event_type: str) -> _Plan:
    facts = EVENT_SPECS[event_type]
    data_model = facts.model.model_fields["event_data"].annotation
    if not (isinstance(data_model, type) and issubclass(data_model, BaseModel)):
        raise TypeError(f"{event_type} has no data model")
    fields = []
    for attribute, field in data_model.model_fields.items():
        name = field.alias or attribute
        if name != facts.payload_field:
            fields.append((attribute, encode_text(META_RENAMES.get(name, name)), f"eventData.{name}"))
    return _Plan(_pair("eventType", encode_text(event_type)), tuple(fields), event_type in RESOLVED_SINGLES)


_PLANS: Final = {event_type: _plan(event_type) for event_type in EVENT_SPECS}


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event in bytes, but for the one pair in which a batch frame and a single frame differ."""

    pairs: bytes
    count: int
    body: bytes
    resolved_single: bool

    def batch_frame_bytes(self, resolve_data: ResolveData | None = None) -> int:
        """Size of `batch_frame` in bytes, its length prefixes included."""
        pair = _REF["resolve" if resolve_data == "all" else "lazy"]
        header = len(encode_map_header(self.count + 1))
        return spec.FRAME_OVERHEAD_BYTES + header + len(self.pairs) + len(pair) + len(self.body)

    def batch_frame(self, resolve_data: ResolveData | None = None) -> bytes:
        """The frame as it stands in a batch."""
        return self._frame("resolve" if resolve_data == "all" else "lazy")

    def single_frame(self) -> bytes:
        """The frame as it stands alone."""
        return self._frame("resolve" if self.resolved_single else "lazy")

    def _frame(self, behavior: str) -> bytes:
        meta = encode_map_header(self.count + 1) + self.pairs + _REF[behavior]
        return encode_frame(meta, self.body)


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
    plan = _PLANS[event.event_type]
    version = spec.DEFAULT_SPEC_VERSION if event.spec_version is None else event.spec_version
    occurred_at = now if event.occurred_at is None else event.occurred_at
    parts = [plan.event_type]
    field = "specVersion"
    try:
        parts.append(_SPEC_VERSION.get(version) or _pair("specVersion", encode_number(version)))
        field = "occurredAt"
        parts.append(_OCCURRED_AT + encode_instant(occurred_at))
        field = "correlationId"
        if event.correlation_id:
            parts.append(_CORRELATION_ID + encode_text(event.correlation_id))
        field = "computeInstanceId"
        instance = event.compute_instance_id
        if instance if not batch else instance is not None:
            parts.append(_COMPUTE_INSTANCE_ID + encode_text(instance or ""))
        data = event.event_data
        for attribute, key, field in plan.fields:
            value = getattr(data, attribute)
            if value is not None:
                parts.append(key + _encode_field(value, field))
        if params is not NO_PARAMS:
            field = "params"
            parts.extend(_encode_params(params))
    except UnencodableError as error:
        path = f"{field}.{error.path}" if error.path else field
        raise InvalidEventError(error.reason, field=path) from None
    if event.event_type == "attr_set":
        _check_attributes(event)
    body = payload_of(event)
    if type(body) is not bytes:
        name = EVENT_SPECS[event.event_type].payload_field
        raise InvalidEventError(f"must be bytes, not {type(body).__name__}", field=f"eventData.{name}")
    return EncodedEvent(b"".join(parts), len(parts), body, plan.resolved_single)


def _encode_field(value: object, name: str) -> bytes:
    encode = _BY_TYPE.get(type(value))
    if encode is not None:
        return encode(value)
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


# -- decode ------------------------------------------------------------------------------------

_PARAM_KEYS: Final = frozenset(
    {
        "eventType",
        "specVersion",
        "correlationId",
        "vercelId",
        "computeInstanceId",
        "occurredAt",
        "remoteRefBehavior",
        "resumeId",
        "resumePayloadDigest",
        "sinceCursor",
        "skipPreload",
        "maxSlot",
        "replayDivergenceCount",
        "viaStepDispatch",
    }
)
"""Meta keys that are no field of eventData."""
_RENAMED_BACK: Final = {wire: name for name, wire in META_RENAMES.items()}


@dataclass(frozen=True, slots=True)
class PostedEvent:
    """An event as a server received it.

    Attributes:
        event_data: the fields under their own names, the payload bytes among them when not empty.
        body: the frame body.
    """

    event_type: str
    event_data: dict[str, Any]
    body: bytes
    spec_version: int | None = None
    correlation_id: str | None = None
    occurred_at: datetime | None = None
    resolve: bool = False
    resume_id: str | None = None
    resume_payload_digest: str | None = None
    since_cursor: str | None = None
    max_slot: int | None = None
    skip_preload: bool = False


def decode_event(frame: Frame) -> PostedEvent:
    """The event that one request frame posts.

    Raises:
        MalformedError: a meta without an event type, or a key of the wrong type.
    """
    meta = frame.meta
    event_type = _take(meta, "eventType", str)
    if not event_type:
        raise MalformedError("eventType is missing")
    data = {
        _RENAMED_BACK.get(key, key): value
        for key, value in meta.items()
        if key not in _PARAM_KEYS and value is not None
    }
    facts = EVENT_SPECS.get(event_type)
    if frame.body and facts is not None and facts.payload_field is not None:
        data[facts.payload_field] = frame.body
    occurred_at = read_instant(meta.get("occurredAt"))
    if occurred_at is not None and not isinstance(occurred_at, datetime):
        raise MalformedError("occurredAt is no date")
    return PostedEvent(
        event_type,
        data,
        frame.body,
        spec_version=_take_count(meta, "specVersion"),
        correlation_id=_take(meta, "correlationId", str) or None,
        occurred_at=occurred_at.astimezone(UTC) if occurred_at else None,
        resolve=_take(meta, "remoteRefBehavior", str) == "resolve",
        resume_id=_take(meta, "resumeId", str) or None,
        resume_payload_digest=_take(meta, "resumePayloadDigest", str) or None,
        since_cursor=_take(meta, "sinceCursor", str) or None,
        max_slot=_take_count(meta, "maxSlot"),
        skip_preload=_take(meta, "skipPreload", bool) or False,
    )


def _take(meta: Mapping[str, Any], key: str, kind: type[_T]) -> _T | None:
    value = meta.get(key)
    if value is not None and not isinstance(value, kind):
        raise MalformedError(f"{key} is {type(value).__name__}, not {kind.__name__}")
    return value


def _take_count(meta: Mapping[str, Any], key: str) -> int | None:
    value = meta.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MalformedError(f"{key} is no whole number from 0 up")
    return value
