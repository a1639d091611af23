"""The facts about each event type, one row each, and what follows from them.

Source: `@workflow/world` 5.0.0-beta.37 and `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import cast

from pydantic import BaseModel

from .events import (
    AttrSet,
    Event,
    HookCreated,
    HookDisposed,
    HookReceived,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunStarted,
    StepCompleted,
    StepCreated,
    StepFailed,
    StepRetrying,
    StepStarted,
    WaitCompleted,
    WaitCreated,
)


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
