"""What a server stores and answers with: stored events, runs, steps, hooks, waits.

The models are lenient where a server may differ without harm: unknown keys are ignored, null counts
as absent, instants may be datetimes, ISO 8601 text or epoch milliseconds, whole floats pass as
integers. What identifies an entity is required.

Source: `@workflow/world` 5.0.0-beta.37 (fields), `vercel-workflow` 0.12.0 (tolerances).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final, Literal, Self, TypeGuard, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from .event_specs import EVENT_SPECS


def read_instant(value: object) -> object:
    """A datetime from what servers send for one; any other value comes back as it is.

    Text without an offset is UTC. Numbers are milliseconds since 1970, as the reference reads them.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return value
    return value


def read_whole(value: object) -> object:
    """An int from an integral float; any other value comes back as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_INSTANTS = (datetime, datetime | None)
_WHOLES = (int, int | None)


class _Entity(BaseModel):
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        extra="ignore",
    )

    @classmethod
    def read(cls, value: object) -> Self:
        """The entity that a decoded answer holds at some place.

        Values of the plain types take the straight way. Only where that fails are the forms that
        other servers send brought to them, so the tolerance costs nothing where it is not needed.

        Raises:
            ValueError: names the field that is missing or wrong, never its value.
        """
        try:
            return cls.model_validate(value)
        except ValidationError:
            pass
        name = cls.__name__.removeprefix("Stored").lower()
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} must be a map, not {type(value).__name__}")
        plain: dict[str, object] = {}
        for attribute, field in cls.model_fields.items():
            key = field.alias or attribute
            item = value.get(key)
            if item is None:
                continue
            if field.annotation in _INSTANTS:
                item = read_instant(item)
            elif field.annotation in _WHOLES:
                item = read_whole(item)
            elif isinstance(item, Mapping):
                item = dict(item)
            plain[key] = item
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = ".".join((name, *(str(part) for part in first["loc"])))
            raise ValueError(f"{path}: {first['msg']}") from None


class StoredEvent(_Entity):
    """An event as the log holds it.

    Attributes:
        event_id: its place in the log; for slot ids, string order is log order.
        created_at: the durable time. Order is by `event_id`, never by time.
        event_data: the fields, with the payload bytes under the payload field when they were read.
    """

    event_type: str
    run_id: str
    event_id: str
    created_at: datetime
    correlation_id: str | None = None
    spec_version: int | None = None
    occurred_at: datetime | None = None
    resume_id: str | None = None
    event_data: dict[str, Any] | None = Field(default=None, repr=False)

    @property
    def payload(self) -> bytes | None:
        """The payload bytes; None when the type has none, or the log was read without payloads."""
        spec = EVENT_SPECS.get(self.event_type)
        if spec is None or spec.payload_field is None or self.event_data is None:
            return None
        value = self.event_data.get(spec.payload_field)
        return value if isinstance(value, bytes) else None


RunStatus = Literal["pending", "running", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "running", "completed", "failed", "cancelled"]
WaitStatus = Literal["waiting", "completed"]
TERMINAL_RUN_STATUSES = frozenset({"completed", "failed", "cancelled"})


class Run(_Entity):
    """A run and where it stands."""

    run_id: str
    status: RunStatus
    deployment_id: str
    workflow_name: str
    created_at: datetime
    updated_at: datetime
    spec_version: int | None = None
    attributes: dict[str, str] = Field(default_factory=dict, repr=False)
    execution_context: Any = Field(default=None, repr=False)
    input: Any = Field(default=None, repr=False)
    output: Any = Field(default=None, repr=False)
    error: Any = Field(default=None, repr=False)
    error_code: str | None = None
    encryption_public_key: str | None = Field(default=None, repr=False)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expired_at: datetime | None = None

    @model_validator(mode="after")
    def _ended_runs_say_when(self) -> Self:
        if self.status in TERMINAL_RUN_STATUSES and self.completed_at is None:
            raise ValueError(f"completedAt is missing from a {self.status} run")
        return self


class Step(_Entity):
    """A step and where it stands. `attempt` counts its starts."""

    run_id: str
    step_id: str
    step_name: str
    status: StepStatus
    attempt: int
    created_at: datetime
    updated_at: datetime
    input: Any = Field(default=None, repr=False)
    output: Any = Field(default=None, repr=False)
    error: Any = Field(default=None, repr=False)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    retry_after: datetime | None = None
    spec_version: int | None = None


class Hook(_Entity):
    """A hook: a token through which the outside resumes a run."""

    run_id: str
    hook_id: str
    token: str = Field(repr=False)
    owner_id: str
    project_id: str
    environment: str
    created_at: datetime
    metadata: Any = Field(default=None, repr=False)
    spec_version: int | None = None
    is_webhook: bool | None = None
    is_system: bool | None = None
    token_retention_until: datetime | None = None
    resume_context: Any = Field(default=None, repr=False)
    resume_capabilities: Any = Field(default=None, repr=False)


class Wait(_Entity):
    """A wait until an instant."""

    wait_id: str
    run_id: str
    status: WaitStatus
    created_at: datetime
    updated_at: datetime
    resume_at: datetime | None = None
    completed_at: datetime | None = None
    spec_version: int | None = None


_MAYBE_TEXT: Final = frozenset({str, NoneType})
_MAYBE_INT: Final = frozenset({int, NoneType})
_MAYBE_INSTANT: Final = frozenset({datetime, NoneType})
_MAYBE_BYTES: Final = frozenset({bytes, NoneType})
_SIMPLE: Final = frozenset({str, int, float, bool, bytes, datetime})


def is_plain_event(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether `value` is a map that `StoredEvent` takes as it is, with event data of simple values.

    Half the price of building the event, and as good: what is plain can be built later without fail. A False
    means no more than that a closer look is due.
    """
    if not isinstance(value, dict):
        return False
    get = value.get
    data = get("eventData")
    if data is not None:
        if data.__class__ is not dict:
            return False
        for key, item in data.items():
            if key.__class__ is not str or item.__class__ not in _SIMPLE:
                return False
    return (
        get("eventType").__class__ is str
        and get("runId").__class__ is str
        and get("eventId").__class__ is str
        and get("createdAt").__class__ is datetime
        and get("correlationId").__class__ in _MAYBE_TEXT
        and get("specVersion").__class__ in _MAYBE_INT
        and get("occurredAt").__class__ in _MAYBE_INSTANT
        and get("resumeId").__class__ in _MAYBE_TEXT
    )


def is_plain_step(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether `value` is a map that `Step` takes as it is; see `is_plain_event`."""
    if not isinstance(value, dict):
        return False
    get = value.get
    return (
        get("runId").__class__ is str
        and get("stepId").__class__ is str
        and get("stepName").__class__ is str
        and get("status").__class__ is str
        and get("status") in _STEP_STATUSES
        and get("attempt").__class__ is int
        and get("createdAt").__class__ is datetime
        and get("updatedAt").__class__ is datetime
        and get("startedAt").__class__ in _MAYBE_INSTANT
        and get("completedAt").__class__ in _MAYBE_INSTANT
        and get("retryAfter").__class__ in _MAYBE_INSTANT
        and get("specVersion").__class__ in _MAYBE_INT
        and get("input").__class__ in _MAYBE_BYTES
        and get("output").__class__ in _MAYBE_BYTES
        and get("error").__class__ in _MAYBE_BYTES
    )


_STEP_STATUSES: Final = frozenset(get_args(StepStatus))
