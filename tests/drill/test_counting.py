"""Effects out of logs."""

from __future__ import annotations

import pytest

from eventclient.drill.counting import Counts, effects_of
from eventclient.drill.kinds import FORGED, GENUINE, KINDS, Kind

from .rows import RUN, log, row

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def counts_of(*writes: object) -> Counts:
    counts = Counts()
    counts.add(RUN, log(*writes))  # type: ignore[arg-type]
    return counts


@each_kind
@pytest.mark.parametrize("times", [0, 1, 2])
def test_every_execution_is_counted(kind: Kind, times: int) -> None:
    events = kind.make("drill-7-1")
    others = kind.make("drill-7-11")
    counts = counts_of(others, *[events] * times)
    assert counts.executions(effects_of(events)) == (times, times)
    assert counts.executions(effects_of(others)) == (1, 1)
    assert not counts.forged
    assert not counts.gaps


@each_kind
def test_an_execution_in_part_is_seen(kind: Kind) -> None:
    events = kind.make("drill-7-1")
    if kind.is_batch:
        assert counts_of(events[1:]).executions(effects_of(events)) == (0, 1)
        assert counts_of(events, events[:1]).executions(effects_of(events)) == (1, 2)
    else:
        assert counts_of(()).executions(effects_of(events)) == (0, 0)


def test_what_made_ready_is_no_effect() -> None:
    counts = Counts()
    counts.add(RUN, [row("step_created", 1, "step_drill-7-1.0", {"stepName": "drill"})])
    (started,) = next(kind for kind in KINDS if kind.name == "step_started").make("drill-7-1")
    assert counts.executions(effects_of([started])) == (0, 0)


@pytest.mark.parametrize(
    "data", [{"error": b"drill-7-1.0" + FORGED}, {"a": [{"value": "drill-7-1.0:forgery"}]}]
)
def test_a_forgery_is_seen_wherever_it_stands(data: dict[str, object]) -> None:
    counts = Counts()
    counts.add(RUN, [row("step_retrying", 1, "step_drill_0", data)])
    assert counts.forged == {"drill-7-1.0"}


def test_the_genuine_is_no_forgery() -> None:
    counts = Counts()
    counts.add(RUN, [row("step_retrying", 1, "step_drill_0", {"error": b"drill-7-1.0" + GENUINE})])
    assert not counts.forged


@pytest.mark.parametrize(
    ("slots", "gaps"), [([], []), ([1, 2], []), ([1, 3], [RUN]), ([2], [RUN]), ([2, 1], [RUN])]
)
def test_gaps(slots: list[int], gaps: list[str]) -> None:
    counts = Counts()
    counts.add(RUN, [row("step_retrying", slot) for slot in slots])
    assert counts.gaps == gaps


def test_ids_that_are_no_slots_have_no_gaps() -> None:
    counts = Counts()
    counts.add(RUN, [row("step_retrying", 5).model_copy(update={"event_id": "evnt_01M8N3CB"})])
    assert counts.gaps == []
