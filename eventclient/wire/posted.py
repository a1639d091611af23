"""Event posts as a server receives them; `requests` encodes them for a client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from eventclient.model.entities import read_instant
from eventclient.model.event_specs import EVENT_SPECS

from .codec import MalformedError
from .frames import Frame
from .requests import META_RENAMES

_T = TypeVar("_T")

PARAM_KEYS: Final = frozenset(
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
_USUAL_KEYS: Final = frozenset(
    {"eventType", "specVersion", "correlationId", "occurredAt", "remoteRefBehavior", "vercelId"}
)
_RENAMED_BACK: Final = {wire: name for name, wire in META_RENAMES.items()}


class PostedEvent(NamedTuple):
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
    data: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for key, value in frame.meta.items():
        if value is None:
            continue
        if key in PARAM_KEYS:
            params[key] = value
        else:
            data[_RENAMED_BACK.get(key, key)] = value
    return build_event(params, data, frame.body)


def build_event(params: Mapping[str, Any], data: dict[str, Any], body: bytes) -> PostedEvent:
    """The event of `params`, which are keyed by `PARAM_KEYS` and hold no null.

    Args:
        data: the fields of eventData but for its payload.
        body: the payload.

    Raises:
        MalformedError: no event type, or a value of the wrong type among `params`.
    """
    event_type = _take(params, "eventType", str)
    if not event_type:
        raise MalformedError("eventType is missing")
    facts = EVENT_SPECS.get(event_type)
    if body and facts is not None and facts.payload_field is not None:
        data[facts.payload_field] = body
    return PostedEvent(
        event_type,
        data,
        body,
        spec_version=_take_count(params, "specVersion"),
        correlation_id=_take(params, "correlationId", str) or None,
        occurred_at=_take_instant(params, "occurredAt"),
        resolve=params.get("remoteRefBehavior") == "resolve",
        **({} if params.keys() <= _USUAL_KEYS else _take_rarer(params)),
    )


def _take_rarer(params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "resume_id": _take(params, "resumeId", str) or None,
        "resume_payload_digest": _take(params, "resumePayloadDigest", str) or None,
        "since_cursor": _take(params, "sinceCursor", str) or None,
        "max_slot": _take_count(params, "maxSlot"),
        "skip_preload": _take(params, "skipPreload", bool) or False,
    }


def _take_instant(params: Mapping[str, Any], key: str) -> datetime | None:
    instant = read_instant(params.get(key))
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise MalformedError(f"{key} is no date")
    try:
        return instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    except OverflowError:
        raise MalformedError(f"{key} is beyond the years 1 to 9999") from None


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
