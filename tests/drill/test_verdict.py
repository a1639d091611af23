"""What is a violation, and what is none."""

from __future__ import annotations

import pytest

from eventclient.drill.counting import Counts
from eventclient.drill.course import Course
from eventclient.drill.faults import Way
from eventclient.drill.kinds import FORGED, GENUINE
from eventclient.drill.verdict import judge
from eventclient.model.outcomes import Outcome

from .rows import RUN, course, log

BATCH = "batch of 3 step_retrying"


def verdict(made: Course, times: int, *outcomes: Outcome, own: bool = True) -> list[str]:
    """What is wrong with an operation that is `times` times in the log, by what the client says."""
    made.outcomes = outcomes
    counts = Counts()
    counts.add(RUN, log(*[made.operation.events()] * times))
    return [item.told for item in judge([made], counts, own=own)]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("outcome", [Outcome.CREATED, Outcome.ALREADY_APPLIED])
def test_once_and_told_so(outcome: Outcome, own: bool) -> None:
    assert verdict(course(), 1, outcome, own=own) == []


@pytest.mark.parametrize("own", [True, False])
def test_twice(own: bool) -> None:
    assert verdict(course(), 2, Outcome.CREATED, own=own) == ["2 effects of its key"]


@pytest.mark.parametrize("own", [True, False])
def test_a_false_success(own: bool) -> None:
    (told,) = verdict(course(), 0, Outcome.CREATED, own=own)
    assert told == "the client says created of a step_retrying that is not in the log"


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.REJECTED, Outcome.UNSENT])
def test_a_false_refusal(outcome: Outcome, own: bool) -> None:
    (told,) = verdict(course(), 1, outcome, own=own)
    assert told == f"the client says {outcome} of a step_retrying that is in the log"


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.REJECTED, Outcome.UNSENT])
def test_what_was_not_executed_is_told_of_any_server(outcome: Outcome) -> None:
    (told,) = verdict(course(), 0, outcome, own=False)
    assert told.endswith(f"was not executed: the client says {outcome}")
    (told,) = verdict(course(), 0, outcome)
    assert told == f"the client says {outcome} of a step_retrying that should have been executed"


@pytest.mark.parametrize("times", [0, 1])
def test_not_knowing_is_true_of_anything_and_no_good_on_an_own_server(times: int) -> None:
    elsewhere = verdict(course(), times, Outcome.UNKNOWN, own=False)
    assert len(elsewhere) == (times == 0)
    (told,) = verdict(course(), times, Outcome.UNKNOWN)
    assert told == "the client could not find out what became of a step_retrying"


def test_every_event_of_a_batch_is_looked_at() -> None:
    created, conflict = Outcome.CREATED, Outcome.CONFLICT
    assert verdict(course(BATCH), 1, created, created, created) == []
    assert len(verdict(course(BATCH), 1, created, conflict, created)) == 1
    (told,) = verdict(course(BATCH), 1, created)
    assert told == "the client gives 1 receipts for 3 events"


def test_a_part() -> None:
    made = course(BATCH)
    made.outcomes = (Outcome.CREATED, Outcome.CREATED, Outcome.UNKNOWN)
    counts = Counts()
    counts.add(RUN, log(made.operation.events()[:2]))
    item, missing = judge([made], counts, own=False)
    assert "was not executed" in missing.told
    assert item.told == "a part of it is in the log, and a part is not"


def test_a_forgery_in_the_log() -> None:
    made = course()
    made.outcomes = (Outcome.CREATED,)
    (row,) = log(made.operation.events())
    assert row.event_data is not None
    row.event_data["error"] = row.event_data["error"].replace(GENUINE, FORGED)
    counts = Counts()
    counts.add(RUN, [row])
    (item,) = judge([made], counts, own=True)
    assert item.told == "another payload than its own is in the log"


def test_what_was_seen_on_the_wire() -> None:
    made = course(index=3)
    made.complaints.append("seen")
    made.outcomes = (Outcome.CREATED,)
    counts = Counts()
    counts.add(RUN, log(made.operation.events()))
    (item,) = judge([made], counts, own=True)
    assert (item.operation, item.told, item.is_hollow) == (3, "seen", False)


def test_a_fault_that_did_not_happen() -> None:
    made = course(way=Way.HOLDER_LOST)
    made.outcomes = (Outcome.CREATED,)
    counts = Counts()
    counts.add(RUN, log(made.operation.events()))
    (item,) = judge([made], counts, own=True)
    assert item.is_hollow
    assert str(Way.HOLDER_LOST) in item.subject
    assert judge([made], counts, own=False) == ()


def test_a_gap_is_a_run_s() -> None:
    counts = Counts()
    counts.add(RUN, log(course().operation.events() * 2)[1:])
    (item,) = judge([], counts, own=True)
    assert (item.operation, item.subject) == (None, f"run {RUN}")
