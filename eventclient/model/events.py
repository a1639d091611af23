"""The events a user can create: one pydantic model per type, and the table of facts about each type.

Source of the types, their fields and the facts in `EVENT_SPECS`: `@workflow/world` 5.0.0-beta.37 and
`@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from eventclient.errors import InvalidEventError

logger = logging.getLogger("eventclient")


def _check_payload(value: object) -> bytes:
    if type(value) is bytes:
        return value
    raise PydanticCustomError(
        "payload",
        "must be bytes, not {kind}: encode the payload before building the event",
        {"kind": type(value).__name__},
    )


def _check_instant(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("instant", "is not an ISO 8601 date and time") from None
    if not isinstance(value, datetime):
        raise PydanticCustomError(
            "instant",
            "must be a datetime with a time zone, not {kind}",
            {"kind": type(value).__name__},
        )
    if value.utcoffset() is None:
        raise PydanticCustomError("instant", "is a naive datetime: give it a time zone (datetime.now(UTC))")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("instant", "is outside the years 1 to 9999 in UTC") from None


def _check_context(value: object) -> object:
    if isinstance(value, Mapping | list | tuple):
        return value
    raise PydanticCustomError("context", "must be a mapping, not {kind}", {"kind": type(value).__name__})


def _check_number(value: object) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("number", "must be a number, not {kind}", {"kind": type(value).__name__})


def _positive_count(value: object) -> int | None:
    """A telemetry count is left out when it is not a positive whole number, as the reference does."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return int(value) if value == value // 1 and abs(value) != float("inf") else None
    return None


def _text_list(value: object) -> list[str] | None:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    return None


Payload = Annotated[bytes, BeforeValidator(_check_payload)]
Instant = Annotated[AwareDatetime, BeforeValidator(_check_instant)]
Number = Annotated[int | float, BeforeValidator(_check_number)]
Context = Annotated[Any, BeforeValidator(_check_context)]
Count = Annotated[int | None, BeforeValidator(_positive_count)]
TextList = Annotated[list[str] | None, BeforeValidator(_text_list)]
Text = StrictStr


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        extra="ignore",
    )

    def __repr_args__(self) -> Any:
        """Payload bytes are shown by their length only: they must not reach a log."""
        for name, value in super().__repr_args__():
            yield name, f"<{len(value)} bytes>" if isinstance(value, bytes) else value


class _Telemetry(_Model):
    ttfs: Number | None = None
    stso: Number | None = None
    step_count: Count = None
    event_count: Count = None
    rsfs: Number | None = None
    final_scheduling_replay: Number | None = None
    optimizations: TextList = None


class RunCreatedData(_Model):
    deployment_id: Text
    workflow_name: Text
    input: Payload = Field(default=b"", repr=False)
    execution_context: Context | None = Field(default=None, repr=False)
    attributes: dict[Text, Text] | None = Field(default=None, repr=False)
    allow_reserved_attributes: StrictBool | None = None
    encryption_public_key: Text | None = Field(default=None, repr=False)


class RunStartedData(_Model):
    deployment_id: Text | None = None
    workflow_name: Text | None = None
    input: Payload = Field(default=b"", repr=False)
    execution_context: Context | None = Field(default=None, repr=False)
    attributes: dict[Text, Text] | None = Field(default=None, repr=False)
    allow_reserved_attributes: StrictBool | None = None
    encryption_public_key: Text | None = Field(default=None, repr=False)


class RunCompletedData(_Model):
    output: Payload = Field(default=b"", repr=False)


class RunFailedData(_Model):
    error: Payload = Field(default=b"", repr=False)
    error_code: Text | None = None


class RunCancelledData(_Model):
    cancel_reason: Annotated[StrictStr, Field(max_length=512)] | None = None


class AttributeChange(_Model):
    key: Text
    value: Text | None = Field(default=None, repr=False)


class WorkflowWriter(_Model):
    type: Literal["workflow"]


class StepWriter(_Model):
    type: Literal["step"]
    step_id: Text
    attempt: Number


class AttrSetData(_Model):
    changes: list[AttributeChange] = Field(repr=False)
    writer: Annotated[WorkflowWriter | StepWriter, Field(discriminator="type")]
    allow_reserved_attributes: StrictBool | None = None


class StepCreatedData(_Model):
    step_name: Text
    workflow_name: Text | None = None
    input: Payload = Field(default=b"", repr=False)


class StepStartedData(_Model):
    step_name: Text | None = None
    attempt: Number | None = None
    workflow_name: Text | None = None
    input: Payload = Field(default=b"", repr=False)
    owner_message_id: Text | None = None


class StepCompletedData(_Telemetry):
    step_name: Text | None = None
    workflow_name: Text | None = None
    result: Payload = Field(default=b"", repr=False)


class StepFailedData(_Telemetry):
    step_name: Text | None = None
    error: Payload = Field(default=b"", repr=False)


class StepRetryingData(_Model):
    step_name: Text | None = None
    error: Payload = Field(default=b"", repr=False)
    retry_after: Instant | None = None


class HookCreatedData(_Model):
    token: Text = Field(repr=False)
    token_retention_until: Instant | None = None
    metadata: Payload = Field(default=b"", repr=False)
    is_webhook: StrictBool | None = None
    is_system: StrictBool | None = None


class HookReceivedData(_Model):
    token: Text | None = Field(default=None, repr=False)
    payload: Payload = Field(default=b"", repr=False)


class HookDisposedData(_Model):
    token: Text | None = Field(default=None, repr=False)


class WaitCreatedData(_Model):
    resume_at: Instant


class WaitCompletedData(_Model):
    resume_at: Instant | None = None


class _Event(_Model):
    """What every event has.

    Attributes:
        event_type: the type; on the wire and in mappings ``eventType``.
        spec_version: 1..7; None is sent as 2, as the reference client does. Batches need a run
            created at 6 or later.
        occurred_at: when it happened, aware; None means the moment of the write. Sent in whole
            milliseconds, cut off.
        compute_instance_id: which instance claims a step; only ``step_started`` needs it.
    """

    model_config = ConfigDict(extra="forbid")

    spec_version: StrictInt | None = None
    occurred_at: Instant | None = None
    compute_instance_id: Text | None = None


class _RunEvent(_Event):
    correlation_id: None = None


class _CorrelatedEvent(_Event):
    correlation_id: Text


class RunCreated(_RunEvent):
    event_type: Literal["run_created"] = "run_created"
    event_data: RunCreatedData


class RunStarted(_RunEvent):
    event_type: Literal["run_started"] = "run_started"
    event_data: RunStartedData = RunStartedData()


class RunCompleted(_RunEvent):
    event_type: Literal["run_completed"] = "run_completed"
    event_data: RunCompletedData = RunCompletedData()


class RunFailed(_RunEvent):
    event_type: Literal["run_failed"] = "run_failed"
    event_data: RunFailedData = RunFailedData()


class RunCancelled(_RunEvent):
    event_type: Literal["run_cancelled"] = "run_cancelled"
    event_data: RunCancelledData = RunCancelledData()


class AttrSet(_Event):
    event_type: Literal["attr_set"] = "attr_set"
    correlation_id: Text | None = None
    event_data: AttrSetData


class StepCreated(_CorrelatedEvent):
    event_type: Literal["step_created"] = "step_created"
    event_data: StepCreatedData


class StepStarted(_CorrelatedEvent):
    event_type: Literal["step_started"] = "step_started"
    event_data: StepStartedData = StepStartedData()


class StepCompleted(_CorrelatedEvent):
    event_type: Literal["step_completed"] = "step_completed"
    event_data: StepCompletedData = StepCompletedData()


class StepFailed(_CorrelatedEvent):
    event_type: Literal["step_failed"] = "step_failed"
    event_data: StepFailedData = StepFailedData()


class StepRetrying(_CorrelatedEvent):
    event_type: Literal["step_retrying"] = "step_retrying"
    event_data: StepRetryingData = StepRetryingData()


class HookCreated(_CorrelatedEvent):
    event_type: Literal["hook_created"] = "hook_created"
    event_data: HookCreatedData


class HookReceived(_CorrelatedEvent):
    event_type: Literal["hook_received"] = "hook_received"
    event_data: HookReceivedData = HookReceivedData()


class HookDisposed(_CorrelatedEvent):
    event_type: Literal["hook_disposed"] = "hook_disposed"
    event_data: HookDisposedData = HookDisposedData()


class WaitCreated(_CorrelatedEvent):
    event_type: Literal["wait_created"] = "wait_created"
    event_data: WaitCreatedData


class WaitCompleted(_CorrelatedEvent):
    event_type: Literal["wait_completed"] = "wait_completed"
    event_data: WaitCompletedData = WaitCompletedData()


Event = (
    RunCreated
    | RunStarted
    | RunCompleted
    | RunFailed
    | RunCancelled
    | AttrSet
    | StepCreated
    | StepStarted
    | StepCompleted
    | StepFailed
    | StepRetrying
    | HookCreated
    | HookReceived
    | HookDisposed
    | WaitCreated
    | WaitCompleted
)
"""Any event a user can create."""


class Entity(StrEnum):
    """What an event changes. Two events on one entity may not share a batch, but for a pair."""

    RUN = "run"
    STEP = "step"
    HOOK = "hook"
    WAIT = "wait"
    ATTRIBUTES = "attributes"


class Convergence(StrEnum):
    """Whether sending an event twice leaves the same log as sending it once."""

    ALWAYS = "always"
    NEVER = "never"
    WITH_RESUME_PAIR = "only with resume_id and resume_payload_digest"
    UNLESS_STEP_WRITER = "only when a workflow wrote it"


@dataclass(frozen=True, slots=True)
class EventSpec:
    """The facts about one event type.

    Attributes:
        model: its class.
        entity: what it changes.
        payload_field: the one field of ``eventData`` that travels as the frame body, or None.
        data_required: whether a stored event of this type always has an ``eventData`` map.
        batchable: whether the batch route takes it.
        converges: whether it may be sent again after an answer was lost, and `why`.
    """

    model: type[BaseModel]
    entity: Entity
    payload_field: str | None
    data_required: bool
    batchable: bool
    converges: Convergence
    why: str


_CREATE = "a conditional create: the second one meets 409"
_TERMINAL = "guarded by the state it leaves: the second one meets 409"

EVENT_SPECS: Mapping[str, EventSpec] = MappingProxyType(
    {
        "run_created": EventSpec(RunCreated, Entity.RUN, "input", True, False, Convergence.ALWAYS, _CREATE),
        "run_started": EventSpec(
            RunStarted,
            Entity.RUN,
            "input",
            False,
            False,
            Convergence.ALWAYS,
            "a running run is answered as it is, with no second event",
        ),
        "run_completed": EventSpec(
            RunCompleted, Entity.RUN, "output", True, True, Convergence.ALWAYS, _TERMINAL
        ),
        "run_failed": EventSpec(RunFailed, Entity.RUN, "error", True, True, Convergence.ALWAYS, _TERMINAL),
        "run_cancelled": EventSpec(
            RunCancelled, Entity.RUN, None, False, False, Convergence.ALWAYS, _TERMINAL
        ),
        "attr_set": EventSpec(
            AttrSet,
            Entity.ATTRIBUTES,
            None,
            True,
            False,
            Convergence.UNLESS_STEP_WRITER,
            "keyed by its correlation id, which a step writer does not send",
        ),
        "step_created": EventSpec(StepCreated, Entity.STEP, "input", True, True, Convergence.ALWAYS, _CREATE),
        "step_started": EventSpec(
            StepStarted,
            Entity.STEP,
            "input",
            False,
            True,
            Convergence.NEVER,
            "every success adds one to the attempt",
        ),
        "step_completed": EventSpec(
            StepCompleted, Entity.STEP, "result", True, True, Convergence.ALWAYS, _TERMINAL
        ),
        "step_failed": EventSpec(StepFailed, Entity.STEP, "error", True, True, Convergence.ALWAYS, _TERMINAL),
        "step_retrying": EventSpec(
            StepRetrying,
            Entity.STEP,
            "error",
            True,
            True,
            Convergence.NEVER,
            "nothing guards against a second row",
        ),
        "hook_created": EventSpec(
            HookCreated,
            Entity.HOOK,
            "metadata",
            True,
            False,
            Convergence.ALWAYS,
            "the token is unique: the second one meets 409",
        ),
        "hook_received": EventSpec(
            HookReceived,
            Entity.HOOK,
            "payload",
            True,
            False,
            Convergence.WITH_RESUME_PAIR,
            "a payload is delivered again unless the server can tell it by its resume id",
        ),
        "hook_disposed": EventSpec(
            HookDisposed,
            Entity.HOOK,
            None,
            False,
            False,
            Convergence.ALWAYS,
            "a conditional delete: the second one finds no hook",
        ),
        "wait_created": EventSpec(WaitCreated, Entity.WAIT, None, True, True, Convergence.ALWAYS, _CREATE),
        "wait_completed": EventSpec(
            WaitCompleted, Entity.WAIT, None, False, True, Convergence.ALWAYS, _TERMINAL
        ),
    }
)
"""One row per event type a user can create."""

SERVER_EVENT_TYPES = frozenset({"hook_conflict", "noop"})
"""Types only a server writes; they are read, never posted."""


def payload_field(event: Event) -> str | None:
    """The field of ``eventData`` that travels as the frame body, or None."""
    return EVENT_SPECS[event.event_type].payload_field


def payload_of(event: Event) -> bytes:
    """The bytes that travel as the frame body; empty when the type has none."""
    field = payload_field(event)
    return cast(bytes, getattr(event.event_data, field)) if field else b""


def is_pair(first: Event, second: Event) -> bool:
    """Whether `second` is the ``step_started`` that belongs directly behind the ``step_created`` `first`.

    The input of such a pair rides on the create; a ``step_started`` with an input of its own is
    a lazy start, which the batch route refuses.
    """
    return (
        isinstance(first, StepCreated)
        and isinstance(second, StepStarted)
        and first.correlation_id == second.correlation_id
        and not second.event_data.input
    )


def is_batchable(event: Event) -> bool:
    """Whether the batch route takes this event."""
    if event.event_type == "step_started":
        return not event.event_data.input
    return EVENT_SPECS[event.event_type].batchable


def parse_event(mapping: Mapping[str, Any]) -> Event:
    """The event that `mapping` describes.

    Takes ``{eventType, correlationId?, specVersion?, occurredAt?, computeInstanceId?, eventData?}``
    or the same names in snake_case. Payloads are ``bytes``; instants are aware ``datetime`` or ISO
    8601 text with an offset. Fields of ``eventData`` that the protocol does not carry for the type
    are left out, with one warning for each that names it.

    Raises:
        InvalidEventError: names the field and says why. Nothing of the value is repeated.
    """
    if not isinstance(mapping, Mapping):
        raise InvalidEventError(f"must be a mapping, not {type(mapping).__name__}", field="event")
    event_type = mapping.get("eventType", mapping.get("event_type"))
    if event_type is None:
        raise InvalidEventError("is missing: every event names its type", field="eventType")
    if isinstance(event_type, str) and event_type in SERVER_EVENT_TYPES:
        raise InvalidEventError(
            f"{event_type} is written by the server alone and cannot be posted", field="eventType"
        )
    spec = EVENT_SPECS.get(event_type) if isinstance(event_type, str) else None
    if spec is None:
        known = ", ".join(sorted(EVENT_SPECS))
        raise InvalidEventError(f"is no event type of this protocol; one of {known}", field="eventType")
    try:
        event = spec.model.model_validate(mapping)
    except ValidationError as error:
        raise _invalid(error) from None
    _warn_of_unknown(event_type, spec.model, mapping.get("eventData", mapping.get("event_data")))
    return cast(Event, event)


def _invalid(error: ValidationError) -> InvalidEventError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path: list[str] = []
    for part in first["loc"]:
        # The chosen arm of the writer's union stands in the location as if it were a field.
        if path[-1:] != ["writer"] or part not in ("workflow", "step"):
            # The names of attributes are the caller's own.
            own = not isinstance(part, str) or path[-1:] == ["attributes"]
            path.append(str(part) if own else to_camel(str(part)))
    reason = {
        "missing": "is missing",
        "extra_forbidden": "is no field of an event",
    }.get(first["type"], first["msg"])
    return InvalidEventError(reason, field=".".join(path) or "event")


_warned: set[tuple[str, str]] = set()


def _warn_of_unknown(event_type: str, model: type[BaseModel], data: object) -> None:
    data_model = model.model_fields["event_data"].annotation
    if not isinstance(data, Mapping) or data_model is None:
        return
    fields: Mapping[str, Any] = data_model.model_fields
    for name in data:
        known = name in fields or any(field.alias == name for field in fields.values())
        if not known and (event_type, str(name)) not in _warned and len(_warned) < 1000:
            _warned.add((event_type, str(name)))
            logger.warning("eventData.%s is no field of %s: it is not sent", name, event_type)
