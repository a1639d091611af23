"""Event posts as a server receives them; `requests` encodes them for a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from eventclient.model.entities import read_instant
from eventclient.model.event_specs import EVENT_SPECS

from .codec import MalformedError
from .frames import Frame
from .requests import META_RENAMES

_T = TypeVar("_T")

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
    if isinstance(occurred_at, datetime):
        try:
            occurred_at = occurred_at.astimezone(UTC)
        except OverflowError:
            raise MalformedError("occurredAt is beyond the years 1 to 9999") from None
    elif occurred_at is not None:
        raise MalformedError("occurredAt is no date")
    return PostedEvent(
        event_type,
        data,
        frame.body,
        spec_version=_take_count(meta, "specVersion"),
        correlation_id=_take(meta, "correlationId", str) or None,
        occurred_at=occurred_at,
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
