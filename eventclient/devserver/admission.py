"""From what was posted to what may be evaluated: fields checked, dates settled, batches of a legal shape."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from eventclient.model.event_data import WorkflowWriter
from eventclient.model.event_specs import EVENT_SPECS, SERVER_EVENT_TYPES, Entity
from eventclient.model.events import AttrSet
from eventclient.model.lifecycle import kind_of
from eventclient.wire import spec
from eventclient.wire.codec import encode_value
from eventclient.wire.items import UnencodableError
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused

MAX_ID_CHARS: Final = 256
CODE_INVALID_EVENT: Final = "invalid-event"
CODE_UNKNOWN_EVENT_TYPE: Final = "unknown-event-type"
CODE_NOT_EXPRESSIBLE: Final = "batch-not-expressible"
CODE_BATCH_TOO_LARGE: Final = "batch-too-large"


class Candidate(NamedTuple):
    """A posted event that is well formed.

    Attributes:
        kind: its row in the tables of the life cycle.
        data: the fields the protocol carries for its type, the payload among them when not empty.
        at: its durable instant.
        key: what makes it safe to repeat, if anything does.
        detail: what a repeat has to say again.
    """

    event_type: str
    kind: str
    data: dict[str, Any]
    at: datetime
    correlation_id: str | None
    spec_version: int | None
    resume_id: str | None = None
    key: str | None = None
    detail: str = ""

    @property
    def subject(self) -> str:
        """The correlation id of an event that has one for certain."""
        if self.correlation_id is None:
            raise TypeError(f"{self.event_type} has no correlation id")
        return self.correlation_id

    @property
    def entity(self) -> Entity:
        return EVENT_SPECS[self.event_type].entity


def admit(posted: PostedEvent, now: datetime) -> Candidate | Refused:
    """The event that `posted` stands for, or why it is none. `now` dates an event that has no date."""
    facts = EVENT_SPECS.get(posted.event_type)
    if facts is None:
        whose = "written by the server alone" if posted.event_type in SERVER_EVENT_TYPES else "unknown"
        return Refused(400, CODE_UNKNOWN_EVENT_TYPE, f"events of this type are {whose}")
    version = posted.spec_version
    if version is not None and not 1 <= version <= spec.MAX_SPEC_VERSION:
        return Refused(400, CODE_INVALID_EVENT, f"specVersion is not within 1..{spec.MAX_SPEC_VERSION}")
    if posted.body and facts.payload_field is None:
        return Refused(
            400, CODE_INVALID_EVENT, f"{posted.event_type} has no payload, and the frame has a body"
        )
    correlation_id = posted.correlation_id if _has_correlation(facts.model) else None
    for name, value in (("correlationId", correlation_id), ("resumeId", posted.resume_id)):
        if value is not None and not is_identifier(value):
            return Refused(400, CODE_INVALID_EVENT, f"{posted.event_type}: {name} is no identifier")
    fields = {"eventType": posted.event_type, "correlationId": correlation_id, "eventData": posted.event_data}
    try:
        event = facts.model.model_validate(fields)
        data = _data_of(event, facts.payload_field)
    except ValidationError as error:
        return Refused(400, CODE_INVALID_EVENT, f"{posted.event_type}: {_reason(error)}")
    except UnencodableError as error:
        return Refused(400, CODE_INVALID_EVENT, f"{posted.event_type}: eventData.{error}")
    if posted.event_type == "step_started" and posted.body and not data.get("stepName"):
        return Refused(400, CODE_INVALID_EVENT, "step_started: an input needs a stepName to create a step")
    key, detail = _key_of(event, posted)
    return Candidate(
        event_type=posted.event_type,
        kind=kind_of(posted.event_type, data),
        data=data,
        at=posted.occurred_at or now,
        correlation_id=correlation_id,
        spec_version=spec.MAX_SPEC_VERSION if version is None else version,
        resume_id=posted.resume_id if posted.event_type == "hook_received" else None,
        key=key,
        detail=detail,
    )


def is_identifier(text: str) -> bool:
    """Whether `text` can name something: a run, an event, a step, a hook."""
    return 0 < len(text) <= MAX_ID_CHARS and text not in (".", "..") and text.isprintable()


def _data_of(event: BaseModel, payload_field: str | None) -> dict[str, Any]:
    """The fields of ``eventData`` under their wire names, checked to be carriable."""
    data_model: BaseModel = event.event_data  # type: ignore[attr-defined]
    data = {}
    values = data_model.__dict__
    for attribute, key in _data_fields(data_model.__class__):
        value = values[attribute]
        if value is None or (key == payload_field and not value):
            continue
        if value.__class__ is str and value.isascii():
            pass
        elif key != payload_field:
            value = _plain(value)
            encode_value({key: value})
        data[key] = value
    context = data.get("executionContext")
    if context is not None and len(encode_value(context)) > spec.MAX_EXECUTION_CONTEXT_BYTES:
        limit = spec.MAX_EXECUTION_CONTEXT_BYTES
        raise UnencodableError(f"is more than {limit} bytes encoded", "executionContext")
    return data


@cache
def _data_fields(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """Attribute and wire name of each field of an event's data."""
    return tuple((name, field.alias or name) for name, field in model.model_fields.items())


@cache
def _has_correlation(model: type[BaseModel]) -> bool:
    return model.model_fields["correlation_id"].annotation is not NoneType


def _plain(value: Any) -> Any:
    """Models as maps."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _key_of(event: BaseModel, posted: PostedEvent) -> tuple[str | None, str]:
    if isinstance(event, AttrSet):
        if event.correlation_id is not None and isinstance(event.event_data.writer, WorkflowWriter):
            return f"attributes:{event.correlation_id}", ""
    elif posted.event_type == "hook_received" and posted.resume_id is not None:
        return f"resume:{posted.resume_id}", f"{posted.resume_payload_digest or ''} {posted.correlation_id}"
    elif posted.event_type == "run_started":
        return "start", ""
    return None, ""


def says_the_same(detail: str, other: str) -> bool:
    """Whether two events with one key repeat each other. A digest is compared where both sent one.

    Source: `@workflow/world-local` 5.0.0-beta.46.
    """
    digest, _, subject = detail.partition(" ")
    other_digest, _, other_subject = other.partition(" ")
    return subject == other_subject and (not digest or not other_digest or digest == other_digest)


def check_batch(batch: Sequence[PostedEvent]) -> Refused | None:
    """Why a batch of this shape is refused whole; None when it is not."""
    if len(batch) > spec.HARD_MAX_BATCH_EVENTS:
        limit = spec.HARD_MAX_BATCH_EVENTS
        return Refused(400, CODE_BATCH_TOO_LARGE, f"the batch has {len(batch)} events, more than {limit}")
    seen: set[tuple[Entity, str | None]] = set()
    for index, posted in enumerate(batch):
        facts = EVENT_SPECS.get(posted.event_type)
        if facts is None or not facts.batchable:
            return _not_expressible(index, f"{posted.event_type[:64]!r} is not taken in a batch")
        if posted.event_type == "step_started" and posted.body:
            return _not_expressible(index, "a step_started in a batch has no input")
        if index and is_posted_pair(batch[index - 1], posted):
            continue
        subject = None if facts.entity is Entity.RUN else posted.correlation_id
        if (facts.entity, subject) in seen:
            return _not_expressible(index, "two events of the batch are about one entity")
        seen.add((facts.entity, subject))
    return None


def is_posted_pair(first: PostedEvent, second: PostedEvent) -> bool:
    """Whether `second` starts the step that `first` creates, with nothing between them."""
    return (
        first.event_type == "step_created"
        and second.event_type == "step_started"
        and first.correlation_id == second.correlation_id
        and not second.body
    )


def _not_expressible(index: int, why: str) -> Refused:
    return Refused(400, CODE_NOT_EXPRESSIBLE, f"event {index}: {why}")
