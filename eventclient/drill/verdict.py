"""Whether what an operation was told, what it met and what the log holds of it fit together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventclient.model.outcomes import Outcome

from .counting import Counts
from .course import Course
from .report import Violation

_APPLIED: Final = frozenset({Outcome.CREATED, Outcome.ALREADY_APPLIED})
_ABSENT: Final = frozenset(Outcome) - _APPLIED - {Outcome.UNKNOWN}


def subject_of(course: Course) -> str:
    """The operation in words."""
    operation = course.operation
    told = f"operation {operation.index} ({operation.kind.name})"
    return told if operation.way is None else f"{told}, {operation.way}"


def judge(courses: Sequence[Course], counts: Counts, *, own: bool) -> tuple[Violation, ...]:
    """Every violation of the courses and of their runs' logs.

    Args:
        courses: all of them over.
        counts: of the logs, read when nothing was under way any more.
        own: the server is the drill's own: every outcome can be known. On any server every operation has to
            have been executed.
    """
    found = []
    for course in courses:
        index, subject = course.operation.index, subject_of(course)
        told = [*course.complaints, *_in_the_log(course, counts), *_untruths(course, counts, own=own)]
        found += [Violation(index, subject, item) for item in told]
        if own and not course.is_injected:
            found.append(Violation(index, subject, "its fault could not be injected", is_hollow=True))
    gaps = [Violation(None, f"run {run_id}", "its log is not dense") for run_id in counts.gaps]
    return (*found, *gaps)


def _in_the_log(course: Course, counts: Counts) -> Iterator[str]:
    effects = course.operation.effects()
    least, most = counts.executions(effects)
    if most > 1:
        yield f"{most} effects of its key"
    elif least != most:
        yield "a part of it is in the log, and a part is not"
    if any(mark in counts.forged for _, mark in effects):
        yield "another payload than its own is in the log"


def _untruths(course: Course, counts: Counts, *, own: bool) -> Iterator[str]:
    """What the client says of its events and is not so."""
    effects = course.operation.effects()
    outcomes = course.outcomes
    if len(outcomes) != len(effects):
        yield f"the client gives {len(outcomes)} receipts for {len(effects)} events"
        return
    for effect, outcome in zip(effects, outcomes, strict=True):
        count = counts.effects[effect]
        if outcome in _APPLIED and count < 1:
            yield f"the client says {outcome} of a {effect[0]} that is not in the log"
        elif outcome in _ABSENT and count > 0:
            yield f"the client says {outcome} of a {effect[0]} that is in the log"
        elif own and outcome is Outcome.UNKNOWN:
            yield f"the client could not find out what became of a {effect[0]}"
        elif own and outcome in _ABSENT:
            yield f"the client says {outcome} of a {effect[0]} that should have been executed"
        elif count < 1:
            yield f"a {effect[0]} was not executed: the client says {outcome}"
