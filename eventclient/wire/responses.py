"""Answers to event posts, decoded for the client.

What proves a write is strict: the result's place, its status, and the event's type, run, correlation id,
id and time. What comes beside it is lenient: unknown keys are ignored and null counts as absent.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (shapes), `vercel-workflow` 0.12.0 (null as absent).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait, is_plain_event, is_plain_step
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.model.results import Log, Result

from . import spec
from .codec import MalformedError, decode, without_undefined

REQUIRED_DATA: Final[Mapping[str, tuple[str, ...]]] = {
    "run_created": ("deploymentId", "workflowName"),
    "attr_set": ("changes", "writer"),
    "step_created": ("stepName",),
    "hook_created": ("token",),
    "hook_conflict": ("token",),
    "wait_created": ("resumeAt",),
}
"""Fields without which a stored event of the type says nothing. Source: `@workflow/world`."""

_MAX_MESSAGE_CHARS: Final = 500


def decode_batch(body: bytes, run_id: str, events: Sequence[Event]) -> list[Result]:
    """One result per event of a batch, in order.

    Raises:
        MalformedError: not exactly one well-formed result per event, of its type, in its place.
    """
    answer = decode(body, keep_undefined=True)
    results = answer.get("results") if isinstance(answer, Mapping) else None
    if not isinstance(results, list):
        raise MalformedError("the batch answer has no list of results")
    if len(results) != len(events):
        raise MalformedError(f"the batch answer holds {len(results)} results for {len(events)} events")
    decoded: list[Result] = []
    try:
        for item, event in zip(results, events, strict=True):
            decoded.append(_plain_success(item, run_id, event) or _item(item, run_id, event))
    except ValueError as error:
        raise MalformedError(f"result {len(decoded)}: {error}") from None
    return decoded


def decode_single(body: bytes, run_id: str, event: Event) -> Result:
    """The result of a single post.

    Raises:
        MalformedError: it is no well-formed result for this event.
    """
    answer = decode(body)
    if not isinstance(answer, Mapping):
        raise MalformedError(f"the answer is {type(answer).__name__}, not a map")
    try:
        return _success(answer, run_id, event, single=True)
    except ValueError as error:
        raise MalformedError(str(error)) from None


def _plain_success(item: object, run_id: str, event: Event) -> Result | None:
    """The result of an event that was stored, if everything about it is plain; else a closer look is due."""
    if not isinstance(item, dict):
        return None
    stored = item.get("event")
    if item.get("status") != 200 or not is_plain_event(stored):
        return None
    own = event.__dict__
    kind = own["event_type"]
    if (
        stored["eventType"] != kind
        or stored["runId"] != run_id
        or stored.get("correlationId") != (own["correlation_id"] or None)
        or kind in _STARTS_OF
    ):
        return None
    required = _DATA.get(kind)
    if required is not None:
        data = stored.get("eventData")
        if data is None or (required and not all(name in data for name in required)):
            return None
    step = item.get("step")
    if step is not None and not is_plain_step(step):
        return None
    if len(item) > (2 if step is None else 3) and ("run" in item or "wait" in item or "hook" in item):
        return None
    return Result(200, None, None, item)


def _item(item: object, run_id: str, event: Event) -> Result:
    item = without_undefined(item)
    if not isinstance(item, Mapping):
        raise ValueError(f"is {type(item).__name__}, not a map")
    status = item.get("status")
    if status.__class__ is float and status.is_integer():
        status = int(status)
    if status.__class__ is not int:
        raise ValueError("status is no whole number")
    if status == 200:
        return _success(item, run_id, event, single=False)
    code, message = item.get("error"), item.get("message")
    if not isinstance(code, str) or not isinstance(message, str):
        raise ValueError(f"status {status} without the texts error and message")
    return Result(status, code=code, message=message[:_MAX_MESSAGE_CHARS])


def _success(answer: Mapping[str, Any], run_id: str, event: Event, *, single: bool) -> Result:
    kind = event.event_type
    stored = check_stored(StoredEvent.read(answer.get("event")))
    if stored.event_type != kind and not (
        single and kind == "hook_created" and stored.event_type == "hook_conflict"
    ):
        raise ValueError(f"the event is a {stored.event_type}, a {kind} was posted")
    if stored.run_id != run_id:
        raise ValueError("the event belongs to another run")
    if event.correlation_id and stored.correlation_id != event.correlation_id:
        raise ValueError("the event has another correlation id than the one posted")
    body: dict[str, Any] = {"event": stored}
    for name, model in _ENTITIES.items():
        if answer.get(name) is not None:
            body[name] = model.read(answer[name])
    if kind in _STARTS_OF:
        name = _STARTS_OF[kind]
        if name not in body:
            raise ValueError(f"{name} is missing")
        if kind != "run_created" and body[name].started_at is None:
            raise ValueError(f"{name}.startedAt is missing")
    if not single:
        return Result(200, body=body)
    created = answer.get("stepCreated")
    if created not in (None, True, False):
        raise ValueError("stepCreated is no bool")
    return Result(
        200,
        body=body,
        step_created=bool(created),
        max_events=_max_events(answer.get("maxEvents")),
        log=_delta(answer),
    )


_ENTITIES: Final[dict[str, type[Run] | type[Step] | type[Hook] | type[Wait]]] = {
    "run": Run,
    "step": Step,
    "hook": Hook,
    "wait": Wait,
}
_STARTS_OF: Final = {"step_started": "step", "run_started": "run", "run_created": "run"}
"""Types whose answer must hold an entity, and, but for a creation, say when it started."""


def check_stored(stored: StoredEvent) -> StoredEvent:
    """`stored`, if it says what an event of its type must say.

    Raises:
        ValueError: eventData or one of its required fields is missing.
    """
    required = _DATA.get(stored.event_type)
    if required is None:
        return stored
    if stored.event_data is None:
        raise ValueError("event.eventData is missing")
    for name in required:
        if stored.event_data.get(name) is None:
            raise ValueError(f"event.eventData.{name} is missing")
    return stored


_DATA: Final[dict[str, tuple[str, ...]]] = {
    **{name: () for name, facts in EVENT_SPECS.items() if facts.data_required},
    **REQUIRED_DATA,
}
"""Types whose stored events have an eventData map, and the fields that must be in it."""


def _max_events(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError("maxEvents is no positive whole number")
    return value


def _delta(answer: Mapping[str, Any]) -> Log | None:
    events, cursor, has_more = (answer.get(key) for key in ("events", "cursor", "hasMore"))
    if events is None and has_more is None:
        return None
    if not isinstance(events, list) or not isinstance(has_more, bool):
        raise ValueError("events, cursor and hasMore do not come together")
    if cursor is not None and not isinstance(cursor, str):
        raise ValueError("cursor is no text")
    return Log(tuple(check_stored(StoredEvent.read(item)) for item in events), cursor, has_more)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the body of a refusal says.

    Attributes:
        code: its ``code``, else its ``error_type``.
        log: the missing part of the log that a 412 may carry.
    """

    message: str | None = None
    code: str | None = None
    log: Log | None = None


def decode_refusal(content_type: str, body: bytes) -> Refusal:
    """Message and code of an error body in CBOR or JSON; empty when it is neither. Never raises.

    The body's label decides what is tried first; a body labelled wrongly is still read. Text that is
    no object (a proxy's HTML page) is not repeated.
    """
    readers = [_read_json, _read_cbor]
    if spec.CBOR_CONTENT_TYPE in content_type:
        readers.reverse()
    for read in readers:
        answer = read(body)
        if answer is not None:
            message = answer.get("message")
            codes = (answer.get("code"), answer.get("error_type"))
            return Refusal(
                message[:_MAX_MESSAGE_CHARS] if isinstance(message, str) else None,
                next((code for code in codes if isinstance(code, str) and code), None),
                _refusal_log(answer),
            )
    return Refusal()


def _read_json(body: bytes) -> Mapping[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _read_cbor(body: bytes) -> Mapping[str, Any] | None:
    try:
        answer = decode(body)
    except MalformedError:
        return None
    return answer if isinstance(answer, Mapping) else None


def _refusal_log(answer: Mapping[str, Any]) -> Log | None:
    """The delta of a 412, or None unless every event of it is whole."""
    events, cursor = answer.get("events"), answer.get("cursor")
    if not isinstance(events, list):
        return None
    read = []
    for item in events:
        try:
            stored = check_stored(StoredEvent.read(item))
        except ValueError:
            return None
        facts = EVENT_SPECS.get(stored.event_type)
        payload = (stored.event_data or {}).get(facts.payload_field or "") if facts else None
        if payload is not None and not isinstance(payload, bytes):
            return None
        read.append(stored)
    return Log(tuple(read), cursor if isinstance(cursor, str) else None, False)
