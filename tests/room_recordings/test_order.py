"""Recorded rows as events to post again."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.event_specs import payload_of
from eventclient.model.events import AttrSet, HookCreated, RunCreated, WaitCreated
from eventclient.recordings.layouts import find_runs, read_run
from eventclient.recordings.order import RunPlan, hoist_creates, plan_run, rename_runs
from eventclient.recordings.rows import RecordedRow, RecordedRun, RecordingError

RECORDINGS = Path(__file__).parent.parent / "recordings"
RUN = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
WHEN = "2026-11-30T02:08:43.611Z"

REQUIRED: dict[str, dict[str, Any]] = {
    "run_created": {"deploymentId": "d", "workflowName": "w"},
    "step_created": {"stepName": "s"},
    "wait_created": {"resumeAt": WHEN},
    "hook_created": {"token": "t"},
    "hook_conflict": {"token": "t", "conflictingRunId": "wrun_2"},
    "attr_set": {"changes": [], "writer": {"type": "workflow"}},
}


def wrapped(payload: bytes) -> dict[str, str]:
    return {"__type": "Uint8Array", "data": base64.b64encode(payload).decode()}


def row(event_type: str, key: str | None = None, *, event_id: str = "", **fields: Any) -> RecordedRow:
    fields.setdefault("createdAt", WHEN)
    if event_type in REQUIRED:
        fields.setdefault("eventData", REQUIRED[event_type])
    if key is not None:
        fields["correlationId"] = key
    return RecordedRow(
        Path(f"/log/{event_id}.json"), RUN, event_id, event_type, {"eventType": event_type, **fields}
    )


def run_of(*rows: RecordedRow) -> RecordedRun:
    """The rows under ULID-like ids in the order given, unless a row brings its own."""
    named = [
        item
        if item.event_id
        else RecordedRow(item.path, RUN, f"evnt_A{at:03d}", item.event_type, item.fields)
        for at, item in enumerate(rows)
    ]
    return RecordedRun(RUN, Path("/log"), tuple(named))


def told(plan: RunPlan) -> list[str]:
    return [
        " ".join(filter(None, (posting.event.event_type, posting.event.correlation_id)))
        for posting in plan.postings
    ]


def published() -> list[RecordedRun]:
    paths = sorted(path for path in RECORDINGS.iterdir() if path.is_dir())
    return [read_run(run) for run in find_runs(paths).runs]


class TestOrder:
    def test_rows_go_by_event_id_and_not_by_time(self) -> None:
        rows = [
            row("step_created", "step_b", event_id="evnt_B", createdAt="2026-01-01T00:00:00.000Z"),
            row("step_created", "step_a", event_id="evnt_A", createdAt="2026-01-02T00:00:00.000Z"),
        ]
        assert told(plan_run(run_of(*rows))) == ["step_created step_a", "step_created step_b"]

    @given(st.permutations(range(1, 81)))
    def test_eighty_slots_of_one_millisecond_in_any_order(self, slots: list[int]) -> None:
        rows = [row("step_created", f"step_{slot}", event_id=f"evnt_{slot:026d}") for slot in slots]
        assert told(plan_run(run_of(*rows))) == [f"step_created step_{slot}" for slot in range(1, 81)]

    def test_a_create_with_a_later_id_comes_before_the_first_event_of_its_entity(self) -> None:
        rows = [
            row("run_created"),
            row("run_started"),
            row("step_started", "step_a"),
            row("step_started", "step_b"),
            row("step_created", "step_b"),
            row("step_created", "step_a"),
            row("step_completed", "step_a"),
        ]
        plan = plan_run(run_of(*rows))
        assert told(plan) == [
            "run_created",
            "run_started",
            "step_created step_a",
            "step_started step_a",
            "step_created step_b",
            "step_started step_b",
            "step_completed step_a",
        ]
        assert [posting.hoisted for posting in plan.postings] == [0, 0, 1, 0, 1, 0, 0]

    def test_the_run_is_created_before_everything(self) -> None:
        rows = [row("step_started", "step_a"), row("run_started"), row("step_created", "step_a")]
        assert told(plan_run(run_of(*rows, row("run_created")))) == [
            "run_created",
            "step_created step_a",
            "step_started step_a",
            "run_started",
        ]

    def test_of_several_creates_the_first_is_moved(self) -> None:
        rows = [row("wait_completed", "wait_a"), row("wait_created", "wait_a"), row("wait_created", "wait_a")]
        plan = plan_run(run_of(*rows))
        assert told(plan) == ["wait_created wait_a", "wait_completed wait_a", "wait_created wait_a"]
        assert [posting.row.event_id for posting in plan.postings] == ["evnt_A001", "evnt_A000", "evnt_A002"]

    @pytest.mark.parametrize("run", published(), ids=lambda run: run.run_id)
    def test_published_logs_keep_their_order(self, run: RecordedRun) -> None:
        plan = plan_run(run)
        assert [posting.row for posting in plan.postings] == list(run.rows)
        assert not any(posting.hoisted or posting.expected for posting in plan.postings)
        assert (plan.skipped, plan.missing_slots) == ((), ())

    def test_an_empty_run(self) -> None:
        assert plan_run(run_of()).postings == ()


TYPES = [
    ("run_created", None),
    ("run_started", None),
    ("run_completed", None),
    *(
        (kind, key)
        for key in ("step_a", "step_b")
        for kind in ("step_created", "step_started", "step_completed")
    ),
    *((kind, "wait_a") for kind in ("wait_created", "wait_completed")),
    *((kind, "hook_a") for kind in ("hook_created", "hook_conflict", "hook_received")),
    ("noop", None),
]


@given(st.lists(st.sampled_from(TYPES)))
def test_planning_loses_doubles_and_shuffles_nothing(kinds: list[tuple[str, str | None]]) -> None:
    run = run_of(*(row(kind, key) for kind, key in kinds))
    plan = plan_run(run)
    planned = [posting.row.event_id for posting in plan.postings]
    skipped = [item.row.event_id for item in plan.skipped]
    assert sorted(planned + skipped) == [item.event_id for item in run.rows]

    stayed = [posting.row.event_id for posting in plan.postings if not posting.hoisted]
    assert stayed == sorted(stayed)

    for key in {posting.event.correlation_id for posting in plan.postings}:
        own = [posting for posting in plan.postings if posting.event.correlation_id == key]
        if any(posting.event.event_type.endswith("_created") for posting in own):
            assert own[0].event.event_type.endswith("_created")
    assert sum(posting.hoisted for posting in plan.postings) <= 5
    assert [item.row for item in hoist_creates(plan.postings)] == [item.row for item in plan.postings]


class TestForm:
    def posting(self, *args: Any, **fields: Any) -> Any:
        return plan_run(run_of(row(*args, **fields))).postings[0]

    def test_created_at_becomes_occurred_at(self) -> None:
        event = self.posting("run_started", specVersion=7).event
        assert event.occurred_at == datetime(2026, 11, 30, 2, 8, 43, 611000, UTC)
        assert event.spec_version == 7

    def test_a_row_without_a_time_has_none(self) -> None:
        assert self.posting("run_started", createdAt=None).event.occurred_at is None

    @pytest.mark.parametrize("payload", [b"", b"devl[1]", bytes(range(256))])
    def test_the_payload_is_unwrapped(self, payload: bytes) -> None:
        data = {"stepName": "s", "input": wrapped(payload)}
        assert payload_of(self.posting("step_created", "step_a", eventData=data).event) == payload

    def test_instants_are_read_and_the_execution_context_is_not(self) -> None:
        context = {"at": WHEN, "bytes": wrapped(b"x"), "big": 2**40}
        data = {**REQUIRED["run_created"], "executionContext": context}
        event = self.posting("run_created", eventData=data).event
        assert isinstance(event, RunCreated)
        assert event.event_data.execution_context == context

    @pytest.mark.parametrize(
        ("event_type", "key", "field", "extra"),
        [
            ("wait_created", "wait_a", "resumeAt", {}),
            ("wait_completed", "wait_a", "resumeAt", {}),
            ("step_retrying", "step_a", "retryAfter", {}),
            ("hook_created", "hook_a", "tokenRetentionUntil", {"token": "t"}),
        ],
    )
    def test_the_three_instants_of_event_data(
        self, event_type: str, key: str, field: str, extra: dict[str, str]
    ) -> None:
        event = self.posting(event_type, key, eventData={field: WHEN, **extra}).event
        assert event.event_data.model_dump(by_alias=True)[field] == datetime(
            2026, 11, 30, 2, 8, 43, 611000, UTC
        )

    def test_the_other_fields_stay_as_they_are(self) -> None:
        data = {"changes": [{"key": "when", "value": WHEN}], "writer": {"type": "workflow"}}
        event = self.posting("attr_set", "attr_a", eventData=data).event
        assert isinstance(event, AttrSet)
        assert event.event_data.changes[0].value == WHEN

    def test_a_resume_id_is_kept_aside_with_the_digest_it_needs(self) -> None:
        data = {"payload": wrapped(b"yes")}
        posting = self.posting("hook_received", "hook_a", eventData=data, resumeId="01ABC")
        assert posting.resume_id == "01ABC"
        assert posting.resume_payload_digest == hashlib.sha256(b"yes").hexdigest()
        assert "resume" not in json.dumps(posting.event.model_dump(mode="json", by_alias=True))

    def test_without_a_resume_id_there_is_no_digest(self) -> None:
        posting = self.posting("hook_received", "hook_a")
        assert (posting.resume_id, posting.resume_payload_digest) == (None, None)

    def test_a_conflict_is_posted_as_the_create_it_stands_for(self) -> None:
        posting = self.posting("hook_conflict", "hook_a")
        assert isinstance(posting.event, HookCreated)
        assert posting.event.event_data.token == "t"
        assert posting.conflicting_run_id == "wrun_2"
        assert posting.row.event_type == "hook_conflict"

    def test_a_noop_is_skipped_and_told(self) -> None:
        plan = plan_run(run_of(row("run_created"), row("noop", eventData={"sealed": True})))
        assert told(plan) == ["run_created"]
        assert [item.row.event_type for item in plan.skipped] == ["noop"]

    def test_missing_slots_are_told(self) -> None:
        rows = [row("run_started", event_id=f"evnt_{slot:026d}") for slot in (2, 3, 6, 9007199254740991)]
        assert plan_run(run_of(*rows)).missing_slots == ((1, 1), (4, 5), (7, 9007199254740990))

    @pytest.mark.parametrize(
        ("event_type", "fields", "reason"),
        [
            ("run_paused", {}, "update eventclient"),
            ("wait_created", {"eventData": {"resumeAt": "soon"}}, "eventData.resumeAt"),
            ("wait_created", {"eventData": {"resumeAt": "2026-11-30T02:08:43"}}, "naive"),
            ("wait_created", {"eventData": ["SECRET"]}, "eventData"),
            ("step_created", {"eventData": {"stepName": "s", "input": "SECRET"}}, "eventData.input"),
            ("step_created", {"eventData": {"stepName": "s", "input": {"__type": "Other"}}}, "must be bytes"),
            (
                "step_created",
                {"eventData": {"stepName": "s", "input": {"__type": "Uint8Array", "data": "SECRET!"}}},
                "no base64",
            ),
            (
                "step_created",
                {"eventData": {"stepName": "s", "input": {"__type": "Uint8Array"}}},
                "eventData.input is no base64",
            ),
            ("hook_conflict", {"eventData": None}, "eventData.token"),
            ("run_started", {"specVersion": "SECRET"}, "specVersion"),
            ("run_started", {"createdAt": "SECRET"}, "occurredAt"),
        ],
    )
    def test_a_row_that_cannot_be_posted_names_its_file(
        self, event_type: str, fields: dict[str, Any], reason: str
    ) -> None:
        key = None if event_type.startswith("run") else "step_a"
        with pytest.raises(RecordingError, match=reason) as caught:
            plan_run(run_of(row(event_type, key, event_id="evnt_5", **fields)))
        assert caught.value.path == Path("/log/evnt_5.json")
        assert "SECRET" not in str(caught.value)


class TestRename:
    def test_a_run_is_renamed_wherever_a_plan_names_it(self) -> None:
        one = plan_run(run_of(row("hook_conflict", "hook_a"), row("wait_created", "wait_a")))
        two = plan_run(RecordedRun("wrun_2", Path("/log"), ()))
        renamed = rename_runs([one, two], ["wrun_X", "wrun_Y"])
        assert [(plan.run_id, plan.recorded_run_id) for plan in renamed] == [
            ("wrun_X", RUN),
            ("wrun_Y", "wrun_2"),
        ]
        assert [posting.conflicting_run_id for posting in renamed[0].postings] == ["wrun_Y", None]
        assert isinstance(renamed[0].postings[1].event, WaitCreated)

    def test_a_run_that_is_not_replayed_keeps_its_name(self) -> None:
        one = plan_run(run_of(row("hook_conflict", "hook_a")))
        assert rename_runs([one], ["wrun_X"])[0].postings[0].conflicting_run_id == "wrun_2"
