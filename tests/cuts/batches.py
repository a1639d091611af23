"""Batches of 32 whose events can be told in the log, and what the log then has to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eventclient import Event, parse_event
from eventclient.model.event_specs import payload_of
from eventclient.model.events import StepStarted
from eventclient.wire.rows import LogRow

SIZE: Final = 32
RETRIED: Final = tuple(f"retried_{index}" for index in range(8))
"""Steps that every round retries: nothing but a key keeps that from happening twice."""
TAKEN: Final = ("taken_0", "taken_1")
"""Steps of somebody else, which every round meets a conflict at."""
FOREIGN: Final = b"devlsomebody else's"
_RESUME_AT: Final = "2026-03-04T05:06:07.089Z"

Row = tuple[str, str | None, bytes]
"""What an event is told by in the log: type, correlation id, payload."""


def event(kind: str, name: str | None = None, **data: Any) -> Event:
    """An event on the entity `name`."""
    mapping: dict[str, Any] = {"eventType": kind, "specVersion": 7, "eventData": data}
    if name is not None:
        mapping["correlationId"] = name
    return parse_event(mapping)


def run_started() -> Event:
    """A start that creates its run."""
    return event("run_started", deploymentId="d", workflowName="w", input=b"devl")


def step_created(name: str, payload: bytes) -> Event:
    return event("step_created", name, stepName="s", input=payload)


def taken() -> list[Event]:
    """What somebody else wrote first."""
    return [step_created(name, FOREIGN) for name in TAKEN]


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one round, and which of them meet a conflict whatever happens."""

    events: tuple[Event, ...]

    def is_taken(self, index: int) -> bool:
        return self.events[index].correlation_id in TAKEN

    @property
    def rows(self) -> list[Row]:
        """What it leaves in the log when it has happened once, in order."""
        return [row_of(each) for index, each in enumerate(self.events) if not self.is_taken(index)]

    @property
    def starts(self) -> list[int]:
        """Indices of the starts."""
        return [index for index, each in enumerate(self.events) if isinstance(each, StepStarted)]


def row_of(each: Event) -> Row:
    return each.event_type, each.correlation_id, payload_of(each)


def rows_of(log: Sequence[LogRow]) -> list[Row]:
    """The rows of a log as `Batch.rows` has them."""
    told = []
    for row in log:
        stored = row.event()
        told.append((stored.event_type, stored.correlation_id, row.payload))
    return told


def startable(number: int) -> list[str]:
    """The steps that round `number` leaves to be started by the next one."""
    return [f"s_{number:05d}_{index}" for index in range(4)]


def guarded_by_key(number: int) -> Batch:
    """Half of it happens again whenever it is executed again; a start counts an attempt each time.

    Args:
        number: of the round, from 1; the steps of `startable(number - 1)` and of `RETRIED` must be there.
    """
    mark = b"devl%05d" % number
    events = [event("step_retrying", name, stepName="s", error=mark) for name in RETRIED]
    events += [event("step_started", name) for name in startable(number - 1)]
    for index in range(5):
        name = f"p_{number:05d}_{index}"
        events += [step_created(name, mark), event("step_started", name)]
    events += [event("wait_created", f"w_{number:05d}_{index}", resumeAt=_RESUME_AT) for index in range(4)]
    events += [step_created(name, mark) for name in (*TAKEN, *startable(number))]
    assert len(events) == SIZE
    return Batch(tuple(events))


def before_first() -> list[Event]:
    """What has to be there before the first batch of `guarded_by_key`."""
    return [*taken(), *(step_created(name, b"devl") for name in (*RETRIED, *startable(0)))]


def prepared() -> list[Event]:
    """What has to be there before a batch of `convergent`."""
    return [*taken(), *(step_created(name, b"devl") for name in startable(0))]


def convergent(mark: bytes) -> Batch:
    """Whatever is executed of it a second time meets a conflict. It ends its run.

    Args:
        mark: what its payloads say.
    """
    events = [step_created(name, mark) for name in TAKEN]
    events += [event("step_completed", name, stepName="s", result=mark) for name in startable(0)]
    events += [event("wait_created", f"w_{index}", resumeAt=_RESUME_AT) for index in range(10)]
    events += [step_created(f"c_{index}", mark) for index in range(15)]
    events.append(event("run_completed", output=mark))
    assert len(events) == SIZE
    return Batch(tuple(events))
