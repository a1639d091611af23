"""The data of each event type: the fields of ``eventData``, checked when an event is built.

Source: `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError


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


class Model(BaseModel):
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


class _Telemetry(Model):
    ttfs: Number | None = None
    stso: Number | None = None
    step_count: Count = None
    event_count: Count = None
    rsfs: Number | None = None
    final_scheduling_replay: Number | None = None
    optimizations: TextList = None


class RunCreatedData(Model):
    deployment_id: Text
    workflow_name: Text
    input: Payload = Field(default=b"", repr=False)
    execution_context: Context | None = Field(default=None, repr=False)
    attributes: dict[Text, Text] | None = Field(default=None, repr=False)
    allow_reserved_attributes: StrictBool | None = None
    encryption_public_key: Text | None = Field(default=None, repr=False)


class RunStartedData(Model):
    deployment_id: Text | None = None
    workflow_name: Text | None = None
    input: Payload = Field(default=b"", repr=False)
    execution_context: Context | None = Field(default=None, repr=False)
    attributes: dict[Text, Text] | None = Field(default=None, repr=False)
    allow_reserved_attributes: StrictBool | None = None
    encryption_public_key: Text | None = Field(default=None, repr=False)


class RunCompletedData(Model):
    output: Payload = Field(default=b"", repr=False)


class RunFailedData(Model):
    error: Payload = Field(default=b"", repr=False)
    error_code: Text | None = None


class RunCancelledData(Model):
    cancel_reason: Annotated[StrictStr, Field(max_length=512)] | None = None


class AttributeChange(Model):
    key: Text
    value: Text | None = Field(default=None, repr=False)


class WorkflowWriter(Model):
    type: Literal["workflow"]


class StepWriter(Model):
    type: Literal["step"]
    step_id: Text
    attempt: Number


class AttrSetData(Model):
    changes: list[AttributeChange] = Field(repr=False)
    writer: Annotated[WorkflowWriter | StepWriter, Field(discriminator="type")]
    allow_reserved_attributes: StrictBool | None = None


class StepCreatedData(Model):
    step_name: Text
    workflow_name: Text | None = None
    input: Payload = Field(default=b"", repr=False)


class StepStartedData(Model):
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


class StepRetryingData(Model):
    step_name: Text | None = None
    error: Payload = Field(default=b"", repr=False)
    retry_after: Instant | None = None


class HookCreatedData(Model):
    token: Text = Field(repr=False)
    token_retention_until: Instant | None = None
    metadata: Payload = Field(default=b"", repr=False)
    is_webhook: StrictBool | None = None
    is_system: StrictBool | None = None


class HookReceivedData(Model):
    token: Text | None = Field(default=None, repr=False)
    payload: Payload = Field(default=b"", repr=False)


class HookDisposedData(Model):
    token: Text | None = Field(default=None, repr=False)


class WaitCreatedData(Model):
    resume_at: Instant


class WaitCompletedData(Model):
    resume_at: Instant | None = None
