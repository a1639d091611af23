"""The events a user can create: one pydantic model per type. The data of each is in `event_data`.

Source: `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, StrictInt

from .event_data import (
    AttrSetData,
    HookCreatedData,
    HookDisposedData,
    HookReceivedData,
    Instant,
    Model,
    RunCancelledData,
    RunCompletedData,
    RunCreatedData,
    RunFailedData,
    RunStartedData,
    StepCompletedData,
    StepCreatedData,
    StepFailedData,
    StepRetryingData,
    StepStartedData,
    Text,
    WaitCompletedData,
    WaitCreatedData,
)


class _Event(Model):
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
