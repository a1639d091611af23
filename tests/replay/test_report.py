"""What a replay met."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventclient.model.entities import StoredEvent
from eventclient.model.ids import slot_event_id
from eventclient.model.outcomes import Outcome, Receipt
from eventclient.model.parsing import parse_event
from eventclient.model.results import Result
from eventclient.recordings.order import Posting, RunPlan
from eventclient.recordings.rows import RecordedRow
from eventclient.replay.report import ReplayReport, RunReport, Totals, Verdict, add_totals, settle

RUN = "wrun_1"
EVENT = parse_event(
    {"eventType": "step_completed", "correlationId": "step_a", "eventData": {"result": b"devl[1]"}}
)
HOOK = parse_event({"eventType": "hook_created", "correlationId": "hook_a", "eventData": {"token": "t"}})


def posting(
    event: Any = EVENT, recorded: str | None = None, event_id: str = slot_event_id(7), **fields: Any
) -> Posting:
    row = RecordedRow(Path("x"), RUN, event_id, recorded or event.event_type, {})
    return replace(Posting(event, row), **fields)


def stored(event_type: str = "step_completed", event_id: str = slot_event_id(7), **data: Any) -> StoredEvent:
    return StoredEvent(
        event_type=event_type,
        run_id=RUN,
        event_id=event_id,
        created_at=datetime.now(UTC),
        event_data=data or None,
    )


def receipt(
    outcome: Outcome, status: int | None, event: Any = EVENT, kept: StoredEvent | None = None
) -> Receipt:
    return Receipt(0, event, outcome, Result(status, body={"event": kept}))


@pytest.mark.parametrize(
    ("outcome", "status", "expected", "verdict"),
    [
        (Outcome.CREATED, 200, set(), Verdict.APPLIED),
        (Outcome.ALREADY_APPLIED, 409, set(), Verdict.APPLIED),
        (Outcome.CONFLICT, 409, set(), Verdict.CONFLICT),
        (Outcome.CONFLICT, 409, {409, 410}, Verdict.EXPECTED),
        (Outcome.REJECTED, 410, {409, 410}, Verdict.EXPECTED),
        (Outcome.REJECTED, 410, {409}, Verdict.REFUSED),
        (Outcome.REJECTED, 400, set(), Verdict.REFUSED),
        (Outcome.UNKNOWN, None, {409}, Verdict.UNKNOWN),
        (Outcome.UNSENT, None, set(), Verdict.UNSENT),
        (Outcome.CREATED, 200, {409}, Verdict.APPLIED),
    ],
)
def test_what_an_outcome_means(
    outcome: Outcome, status: int | None, expected: set[int], verdict: Verdict
) -> None:
    item = settle(RUN, 3, posting(expected=frozenset(expected)), receipt(outcome, status))
    assert (item.verdict, item.index, item.recorded_event_id) == (verdict, 3, slot_event_id(7))


class TestDifferences:
    def difference(self, item: Posting, kept: StoredEvent, outcome: Outcome = Outcome.CREATED) -> str | None:
        settled = settle(RUN, 0, item, receipt(outcome, 200, item.event, kept))
        assert (settled.verdict is Verdict.DIFFERING) == (settled.difference is not None)
        assert settled.stored_event_id == kept.event_id
        return settled.difference

    def test_the_same(self) -> None:
        assert self.difference(posting(), stored()) is None
        assert self.difference(posting(), stored(result=b"devl[1]")) is None

    def test_another_payload_is_told_and_not_shown(self) -> None:
        told = self.difference(posting(), stored(result=b"SECRET"))
        assert told == "the stored payload is another"

    def test_no_slot_where_a_slot_was_recorded(self) -> None:
        assert "slot" in str(self.difference(posting(), stored(event_id="evnt_01ABC")))
        assert self.difference(posting(event_id="evnt_01ABC"), stored()) is None

    def test_a_conflict_that_was_recorded_is_the_same(self) -> None:
        item = posting(HOOK, "hook_conflict", conflicting_run_id="wrun_2")
        kept = stored("hook_conflict", token="t", conflictingRunId="wrun_2")
        assert self.difference(item, kept, Outcome.CONFLICT) is None
        kept = stored("hook_conflict", token="t")
        assert self.difference(item, kept, Outcome.CONFLICT) is None

    def test_a_conflict_with_another_run(self) -> None:
        item = posting(HOOK, "hook_conflict", conflicting_run_id="wrun_2")
        kept = stored("hook_conflict", token="t", conflictingRunId="wrun_3")
        assert "another run" in str(self.difference(item, kept, Outcome.CONFLICT))

    def test_a_conflict_that_is_none_any_more(self) -> None:
        item = posting(HOOK, "hook_conflict", conflicting_run_id="wrun_2")
        told = self.difference(item, stored("hook_created", token="t"))
        assert told == "recorded as hook_conflict, stored as hook_created"

    def test_a_conflict_that_was_none(self) -> None:
        told = self.difference(posting(HOOK), stored("hook_conflict", token="t"), Outcome.CONFLICT)
        assert told == "recorded as hook_created, stored as hook_conflict"


def test_the_sums_of_a_run_count_every_event_once() -> None:
    outcomes = [
        (Outcome.CREATED, 200, set[int]()),
        (Outcome.ALREADY_APPLIED, 409, set()),
        (Outcome.CONFLICT, 409, set()),
        (Outcome.CONFLICT, 409, {409}),
        (Outcome.REJECTED, 400, set()),
        (Outcome.UNKNOWN, None, set()),
        (Outcome.UNSENT, None, set()),
    ]
    postings = tuple(posting(expected=frozenset(expected)) for _, _, expected in outcomes)
    # Two more than have an end: they were never sent.
    run = RunReport(RunPlan(RUN, RUN, (*postings, posting(), posting())), requests=4)
    for index, (outcome, status, _) in enumerate(outcomes):
        run.settled.append(settle(RUN, index, postings[index], receipt(outcome, status)))
    totals = run.totals
    assert (totals.created, totals.already_applied, totals.conflicts, totals.expected) == (1, 1, 1, 1)
    assert (totals.refused, totals.unknown, totals.unsent) == (1, 1, 3)
    assert totals.events == 9
    assert totals.events_per_request == 6 / 4
    assert not totals.applied


def test_a_stored_event_that_differs_is_created_too() -> None:
    run = RunReport(RunPlan(RUN, RUN, (posting(),)), requests=1)
    run.settled.append(settle(RUN, 0, posting(), receipt(Outcome.CREATED, 200, kept=stored(result=b"x"))))
    assert (run.totals.created, run.totals.differing, run.totals.applied) == (1, 1, False)


def test_totals_add_up_field_by_field() -> None:
    part = Totals(*range(1, len(Totals.__slots__) + 1))
    total = add_totals([part, part])
    assert [getattr(total, name) for name in Totals.__slots__] == [
        2 * value for value in range(1, len(Totals.__slots__) + 1)
    ]


def test_nothing_to_do_is_all_applied() -> None:
    totals = ReplayReport([]).totals
    assert (totals.events, totals.events_per_request, totals.applied) == (0, 0.0, True)
