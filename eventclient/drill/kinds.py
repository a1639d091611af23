"""The kinds of writes a drill makes, and the marks by which their effects are found in the log: one table.

Every event carries a mark of its own, in its payload where it has one and else in its correlation id. The
payload ends with `GENUINE`; whoever sends another payload under the key makes it `FORGED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from eventclient.model.event_data import (
    AttributeChange,
    AttrSetData,
    HookReceivedData,
    StepCreatedData,
    StepRetryingData,
    StepWriter,
    WaitCreatedData,
)
from eventclient.model.events import (
    AttrSet,
    Event,
    HookReceived,
    StepCreated,
    StepRetrying,
    StepStarted,
    WaitCreated,
)
from eventclient.wire import spec

GENUINE: Final = b":genuine"
FORGED: Final = b":forgery"
"""As long as `GENUINE`, so that one can stand in place of the other in encoded bytes."""

STEP_NAME: Final = "drill"
HOOK_ID: Final = "hook_drill"
TARGETS: Final = tuple(f"step_drill_{number}" for number in range(4))
"""Steps every run has from the start; any number of operations may write to them."""

_VERSION: Final = spec.MAX_SPEC_VERSION
_LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of write.

    Attributes:
        name: for people.
        make: the events, from the name of the operation.
        is_batch: sent by the batch route, else as a single post.
        is_guarded: the state of what it changes refuses a second execution, key or not.
        has_payload: something in it can be changed without changing what it is about.
        steps: the numbers of those events whose step has to be there before.
    """

    name: str
    make: Callable[[str], tuple[Event, ...]]
    is_batch: bool = False
    is_guarded: bool = False
    has_payload: bool = True
    steps: tuple[int, ...] = ()


def mark_of(name: str, number: int) -> str:
    """The mark of an operation's event `number`."""
    return f"{name}.{number}"


def step_of(mark: str) -> str:
    """The step that is an event's own."""
    return f"step_{mark}"


def _payload(name: str, number: int) -> bytes:
    return mark_of(name, number).encode() + GENUINE


def _retrying(name: str, number: int = 0, target: int = 0) -> StepRetrying:
    data = StepRetryingData(step_name=STEP_NAME, error=_payload(name, number))
    return StepRetrying(correlation_id=TARGETS[target], event_data=data, spec_version=_VERSION)


def _started(name: str, number: int = 0) -> StepStarted:
    return StepStarted(correlation_id=step_of(mark_of(name, number)), spec_version=_VERSION)


def _created(name: str, number: int = 0) -> StepCreated:
    data = StepCreatedData(step_name=STEP_NAME, input=_payload(name, number))
    return StepCreated(correlation_id=step_of(mark_of(name, number)), event_data=data, spec_version=_VERSION)


def _delivery(name: str) -> HookReceived:
    data = HookReceivedData(payload=_payload(name, 0))
    return HookReceived(correlation_id=HOOK_ID, event_data=data, spec_version=_VERSION)


def _attribute(name: str) -> AttrSet:
    change = AttributeChange(key="drill", value=_payload(name, 0).decode())
    writer = StepWriter(type="step", step_id=TARGETS[0], attempt=1)
    return AttrSet(event_data=AttrSetData(changes=[change], writer=writer), spec_version=_VERSION)


def _wait(name: str, number: int) -> WaitCreated:
    return WaitCreated(
        correlation_id=f"wait_{mark_of(name, number)}",
        event_data=WaitCreatedData(resume_at=_LONG_AGO),
        spec_version=_VERSION,
    )


def _pairs(name: str) -> Iterator[Event]:
    for number in range(2):
        yield _created(name, number)
        yield _started(name, number)


KINDS: Final[tuple[Kind, ...]] = (
    Kind("step_retrying", lambda name: (_retrying(name),)),
    Kind("hook_received", lambda name: (_delivery(name),)),
    Kind("step_started", lambda name: (_started(name),), has_payload=False, steps=(0,)),
    Kind("attr_set of a step", lambda name: (_attribute(name),)),
    Kind(
        "batch of 3 step_retrying",
        lambda name: tuple(_retrying(name, number, number) for number in range(3)),
        is_batch=True,
    ),
    Kind(
        "batch of 2 step_started and a wait_created",
        lambda name: (_started(name, 0), _started(name, 1), _wait(name, 2)),
        is_batch=True,
        has_payload=False,
        steps=(0, 1),
    ),
    Kind("step_created", lambda name: (_created(name),), is_guarded=True),
    Kind(
        "batch of 2 pairs of step_created and step_started",
        lambda name: tuple(_pairs(name)),
        is_batch=True,
        is_guarded=True,
    ),
)
"""One row per kind: mostly events that nothing but the key keeps from being written twice."""
