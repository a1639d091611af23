"""What each event does to the entity it is about: tables of state x event -> next state or refusal.

Pure values: no bytes, no clock, no store. The reference server and the verification of logs share
these tables, so a log the server wrote is a log the tables accept.

An answer of `apply` is one of three: the state the entity is in afterwards, a `Refusal`, or `REPEAT`
(nothing happens, the event that is there already is the answer).

Source: `@workflow/world-local` 5.0.0-beta.46, every row executed; where `@workflow/world-vercel`
5.0.0-beta.50 says that the hosted server differs, the hosted behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from .entities import TERMINAL_RUN_STATUSES, Hook, Run, Step, Wait


class RunState(StrEnum):
    """Where a run stands."""

    ABSENT = "absent"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in TERMINAL_RUN_STATUSES


class StepState(StrEnum):
    """Where a step stands."""

    ABSENT = "absent"
    PENDING = "pending"
    DELAYED = "delayed"
    """Pending, and its ``retryAfter`` has not passed."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WaitState(StrEnum):
    """Where a wait stands."""

    ABSENT = "absent"
    WAITING = "waiting"
    COMPLETED = "completed"


class HookState(StrEnum):
    """Where a hook stands."""

    ABSENT = "absent"
    """Never created, disposed of, or deleted when its run ended."""
    CONTESTED = "contested"
    """Absent, and another live hook holds the token it asks for."""
    LIVE = "live"
    """There, also when it outlives its run because its token is retained."""


class KeyState(StrEnum):
    """Whether the key that makes an event safe to repeat has been used."""

    NEW = "new"
    """Not used, or the event has none."""
    SAME = "same"
    """Used by an event that says the same."""
    OTHER = "other"
    """Used by an event that says something else."""


class Refusal(StrEnum):
    """Why an event is not taken."""

    CONFLICT = "conflict"
    """The entity is not in a state the event can leave."""
    NOT_FOUND = "not found"
    ENDED = "run ended"
    TOO_EARLY = "too early"
    """The step's ``retryAfter`` has not passed."""


class _Repeat(Enum):
    REPEAT = "repeat"


REPEAT: Final = _Repeat.REPEAT
"""Nothing happens; the event that did this before is the answer."""

PartState = StepState | WaitState | HookState
State = RunState | PartState
Answer = State | Refusal | Literal[_Repeat.REPEAT]

RESILIENT_START: Final = "run_started with creation data"
"""A ``run_started`` that can create its run: it carries deployment, workflow name and input."""
LAZY_START: Final = "step_started with input"
"""A ``step_started`` that creates its step: it carries name and input."""

_CONFLICT, _NOT_FOUND, _ENDED = Refusal.CONFLICT, Refusal.NOT_FOUND, Refusal.ENDED


def _run(absent: Answer, pending: Answer, running: Answer, ended: Answer) -> Mapping[RunState, Answer]:
    return {
        RunState.ABSENT: absent,
        RunState.PENDING: pending,
        RunState.RUNNING: running,
        RunState.COMPLETED: ended,
        RunState.FAILED: ended,
        RunState.CANCELLED: ended,
    }


def _ends_run(state: RunState) -> Mapping[RunState, Answer]:
    return _run(_NOT_FOUND, state, state, _CONFLICT)


RUN_TRANSITIONS: Final[Mapping[str, Mapping[RunState, Answer]]] = MappingProxyType(
    {
        "run_created": _run(RunState.PENDING, _CONFLICT, _CONFLICT, _CONFLICT),
        "run_started": _run(_NOT_FOUND, RunState.RUNNING, REPEAT, _ENDED),
        RESILIENT_START: _run(RunState.RUNNING, RunState.RUNNING, REPEAT, _ENDED),
        "run_completed": _ends_run(RunState.COMPLETED),
        "run_failed": _ends_run(RunState.FAILED),
        "run_cancelled": _ends_run(RunState.CANCELLED),
        "attr_set": _run(_NOT_FOUND, RunState.PENDING, RunState.RUNNING, _CONFLICT),
    }
)
"""Events on the run itself: its state -> the answer."""


def _step(
    absent: Answer, pending: Answer, running: Answer, ended: Answer, *, delayed: Answer | None = None
) -> Mapping[PartState, Answer]:
    return {
        StepState.ABSENT: absent,
        StepState.PENDING: pending,
        StepState.DELAYED: pending if delayed is None else delayed,
        StepState.RUNNING: running,
        StepState.COMPLETED: ended,
        StepState.FAILED: ended,
        StepState.CANCELLED: ended,
    }


def _wait(absent: Answer, waiting: Answer, completed: Answer) -> Mapping[PartState, Answer]:
    return {WaitState.ABSENT: absent, WaitState.WAITING: waiting, WaitState.COMPLETED: completed}


def _hook(absent: Answer, contested: Answer, live: Answer) -> Mapping[PartState, Answer]:
    return {HookState.ABSENT: absent, HookState.CONTESTED: contested, HookState.LIVE: live}


_LEAVES_STEP = {
    state: _step(_NOT_FOUND, state, state, _CONFLICT)
    for state in (StepState.PENDING, StepState.COMPLETED, StepState.FAILED)
}
_NO_HOOK_CREATED = _hook(_CONFLICT, _CONFLICT, _CONFLICT)
_HOOK_DISPOSED = _hook(_NOT_FOUND, _NOT_FOUND, HookState.ABSENT)

PART_TRANSITIONS: Final[Mapping[str, Mapping[PartState, Answer]]] = MappingProxyType(
    {
        "step_created": _step(StepState.PENDING, _CONFLICT, _CONFLICT, _CONFLICT),
        "step_started": _step(
            _NOT_FOUND, StepState.RUNNING, StepState.RUNNING, _CONFLICT, delayed=Refusal.TOO_EARLY
        ),
        LAZY_START: _step(StepState.RUNNING, _CONFLICT, _CONFLICT, _CONFLICT),
        "step_completed": _LEAVES_STEP[StepState.COMPLETED],
        "step_failed": _LEAVES_STEP[StepState.FAILED],
        "step_retrying": _LEAVES_STEP[StepState.PENDING],
        "wait_created": _wait(WaitState.WAITING, _CONFLICT, _CONFLICT),
        "wait_completed": _wait(_NOT_FOUND, WaitState.COMPLETED, _CONFLICT),
        # CONTESTED stays CONTESTED: a hook_conflict event is stored and no hook comes to be.
        "hook_created": _hook(HookState.LIVE, HookState.CONTESTED, _CONFLICT),
        "hook_received": _hook(_NOT_FOUND, _NOT_FOUND, HookState.LIVE),
        "hook_disposed": _HOOK_DISPOSED,
    }
)
"""Events on a step, wait or hook of a run that has not ended: the entity's state -> the answer."""

ENDED_TRANSITIONS: Final[Mapping[str, Mapping[PartState, Answer]]] = MappingProxyType(
    {
        "step_created": _step(_CONFLICT, _CONFLICT, _CONFLICT, _CONFLICT),
        "step_started": _step(_NOT_FOUND, _ENDED, _ENDED, _CONFLICT),
        LAZY_START: _step(_CONFLICT, _CONFLICT, _CONFLICT, _CONFLICT),
        "step_completed": _LEAVES_STEP[StepState.COMPLETED],
        # A step that runs may still report how it went; one that does not has nothing to report.
        "step_failed": _step(_NOT_FOUND, _ENDED, StepState.FAILED, _CONFLICT),
        "step_retrying": _LEAVES_STEP[StepState.PENDING],
        "wait_created": _wait(_CONFLICT, _CONFLICT, _CONFLICT),
        # The waits of a run are deleted when it ends.
        "wait_completed": _wait(_NOT_FOUND, _NOT_FOUND, _NOT_FOUND),
        "hook_created": _NO_HOOK_CREATED,
        "hook_received": _hook(_NOT_FOUND, _NOT_FOUND, _ENDED),
        "hook_disposed": _HOOK_DISPOSED,
    }
)
"""The same for a run that has ended."""

KEY_TRANSITIONS: Final[Mapping[str, Mapping[KeyState, Answer | None]]] = MappingProxyType(
    {
        "attr_set": {KeyState.NEW: None, KeyState.SAME: REPEAT, KeyState.OTHER: REPEAT},
        "hook_received": {KeyState.NEW: None, KeyState.SAME: REPEAT, KeyState.OTHER: _CONFLICT},
    }
)
"""Events that carry a key: the key's state -> the answer, before any other rule; None goes on to them.

The key of an ``attr_set`` a workflow wrote is its correlation id, that of a ``hook_received`` its
resume id. A repeat finds its event even when the hook is gone or the run has ended since.
"""


def kind_of(event_type: str, data: Mapping[str, Any]) -> str:
    """The row of the tables for an event with these ``eventData`` fields."""
    if data.get("input"):
        if event_type == "run_started" and data.get("deploymentId") and data.get("workflowName"):
            return RESILIENT_START
        if event_type == "step_started" and data.get("stepName"):
            return LAZY_START
    return event_type


def apply(kind: str, run: RunState, part: PartState | None = None, key: KeyState = KeyState.NEW) -> Answer:
    """What an event of `kind` meets.

    Args:
        kind: what `kind_of` says.
        run: the state of the run.
        part: the state of the step, wait or hook the event is about; None for events on the run.
        key: the state of the event's key, for the kinds of `KEY_TRANSITIONS`.

    Raises:
        KeyError: a kind, or a state for that kind, that no table knows.
    """
    keyed = KEY_TRANSITIONS[kind][key] if kind in KEY_TRANSITIONS else None
    if keyed is not None and run is not RunState.ABSENT:
        return keyed
    if kind in RUN_TRANSITIONS:
        return RUN_TRANSITIONS[kind][run]
    if part is None:
        raise KeyError(kind)
    answer = (ENDED_TRANSITIONS if run.ended else PART_TRANSITIONS)[kind][part]
    return Refusal.NOT_FOUND if run is RunState.ABSENT else answer


# -- states of entities ------------------------------------------------------------------------


def run_state(run: Run | None) -> RunState:
    """The state of a run; None is absent."""
    return RunState.ABSENT if run is None else RunState(run.status)


def step_state(step: Step | None, now: datetime) -> StepState:
    """The state of a step at the instant `now`; None is absent."""
    if step is None:
        return StepState.ABSENT
    if step.status == "pending" and step.retry_after is not None and step.retry_after > now:
        return StepState.DELAYED
    return StepState(step.status)


def wait_state(wait: Wait | None) -> WaitState:
    """The state of a wait; None is absent."""
    return WaitState.ABSENT if wait is None else WaitState(wait.status)


def is_retained(hook: Hook, now: datetime) -> bool:
    """Whether a hook outlives the end of its run: its token stays taken until an instant to come."""
    return hook.token_retention_until is not None and hook.token_retention_until > now


def is_releasable(hook: Hook, run: RunState, now: datetime) -> bool:
    """Whether a newcomer may take the token of `hook`, whose run is in the state `run`."""
    return run is RunState.ABSENT or (run.ended and not is_retained(hook, now))
