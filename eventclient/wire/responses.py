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

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.events import EVENT_SPECS, Event
from eventclient.model.outcomes import Log

from . import spec
from .codec import MalformedError, decode

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


@dataclass(frozen=True, slots=True)
class Result:
    """What the server says one event met."""

    status: int
    code: str | None = None
    message: str | None = None
    stored: StoredEvent | None = None
    run: Run | None = None
    step: Step | None = None
    hook: Hook | None = None
    wait: Wait | None = None
    step_created: bool = False
    max_events: int | None = None
    log: Log | None = None


def decode_batch(body: bytes, run_id: str, events: Sequence[Event]) -> list[Result]:
    """One result per event of a batch, in order.

    Raises:
        MalformedError: not exactly one well-formed result per event, of its type, in its place.
    """
    answer = decode(body)
    results = answer.get("results") if isinstance(answer, Mapping) else None
    if not isinstance(results, list):
        raise MalformedError("the batch answer has no list of results")
    if len(results) != len(events):
        raise MalformedError(f"the batch answer holds {len(results)} results for {len(events)} events")
    decoded = []
    for index, (item, event) in enumerate(zip(results, events, strict=True)):
        try:
            decoded.append(_item(item, run_id, event))
        except ValueError as error:
            raise MalformedError(f"result {index}: {error}") from None
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


def _item(item: object, run_id: str, event: Event) -> Result:
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
    stored = check_stored(StoredEvent.read(answer.get("event")))
    kind = event.event_type
    if stored.event_type != kind and not (
        single and kind == "hook_created" and stored.event_type == "hook_conflict"
    ):
        raise ValueError(f"the event is a {stored.event_type}, a {kind} was posted")
    if stored.run_id != run_id:
        raise ValueError("the event belongs to another run")
    if event.correlation_id and stored.correlation_id != event.correlation_id:
        raise ValueError("the event has another correlation id than the one posted")
    item = answer.get("run")
    run = None if item is None else Run.read(item)
    item = answer.get("step")
    step = None if item is None else Step.read(item)
    if kind == "step_started" and (step is None or step.started_at is None):
        raise ValueError("step.startedAt is missing")
    if kind == "run_created" and run is None:
        raise ValueError("run is missing")
    if kind == "run_started" and (run is None or run.started_at is None):
        raise ValueError("run.startedAt is missing")
    item = answer.get("hook")
    hook = None if item is None else Hook.read(item)
    item = answer.get("wait")
    wait = None if item is None else Wait.read(item)
    if not single:
        return Result(200, None, None, stored, run, step, hook, wait)
    created = answer.get("stepCreated")
    if created not in (None, True, False):
        raise ValueError("stepCreated is no bool")
    return Result(
        200,
        stored=stored,
        run=run,
        step=step,
        hook=hook,
        wait=wait,
        step_created=bool(created),
        max_events=_max_events(answer.get("maxEvents")),
        log=_delta(answer),
    )


def check_stored(stored: StoredEvent) -> StoredEvent:
    """`stored`, if it says what an event of its type must say.

    Raises:
        ValueError: eventData or one of its required fields is missing.
    """
    facts = EVENT_SPECS.get(stored.event_type)
    required = REQUIRED_DATA.get(stored.event_type, ())
    data = stored.event_data
    if data is None:
        if required or (facts is not None and facts.data_required):
            raise ValueError("event.eventData is missing")
        return stored
    for name in required:
        if data.get(name) is None:
            raise ValueError(f"event.eventData.{name} is missing")
    return stored


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
            message, code = answer.get("message"), answer.get("code")
            return Refusal(
                message[:_MAX_MESSAGE_CHARS] if isinstance(message, str) else None,
                code if isinstance(code, str) else None,
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
