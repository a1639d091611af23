"""Replaying recorded runs: against a client that plays a script, and against the reference server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from eventclient.client.client import EventClient
from eventclient.clock import SystemClock
from eventclient.devserver.app import DevServer
from eventclient.errors import (
    AuthenticationError,
    ConflictError,
    EventClientError,
    NotFoundError,
    ThrottleError,
    TransportError,
)
from eventclient.model.event_specs import payload_of
from eventclient.model.events import Event
from eventclient.model.ids import slot_event_id
from eventclient.model.outcomes import Attempt, BatchResult, Outcome, Receipt
from eventclient.model.results import Log, Result
from eventclient.recordings.layouts import find_runs, read_run
from eventclient.recordings.order import RunPlan, plan_run, rename_runs
from eventclient.replay.replaying import Replay, RunTakenError, check_runs_are_free
from eventclient.replay.report import ReplayReport, Settled
from eventclient.telemetry.ledger import Ledger

RECORDINGS = Path(__file__).parent.parent / "recordings"
RUN = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
OTHER = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVZ"
WHEN = "2026-11-30T02:08:43.611Z"
START: list[dict[str, Any]] = [
    {"eventType": "run_created", "eventData": {"deploymentId": "d", "workflowName": "w"}},
    {"eventType": "run_started"},
]


def plans_of(*names: str) -> list[RunPlan]:
    return [plan_run(read_run(run)) for run in find_runs([RECORDINGS / name for name in names]).runs]


def record(tmp_path: Path, rows: Sequence[dict[str, Any]], run_id: str = RUN) -> RunPlan:
    """A plan of rows written to disk as a recording of spec 7, in slot order."""
    folder = tmp_path / run_id / "events"
    folder.mkdir(parents=True)
    for slot, row in enumerate(rows, 1):
        event_id = slot_event_id(slot)
        fields = {"specVersion": 7, "createdAt": WHEN, "runId": run_id, "eventId": event_id, **row}
        (folder / f"{run_id}-{event_id}.json").write_text(json.dumps(fields))
    return plan_run(read_run(find_runs([folder]).runs[0]))


class ScriptedClient:
    """A client whose calls meet what the script says: an outcome for all events, or an error to raise."""

    def __init__(self, *script: Outcome | EventClientError | asyncio.CancelledError, held: str = "") -> None:
        self.script = list(script)
        self.held = held
        self.calls: list[tuple[str, int]] = []

    async def list_events(self, run_id: str, *, limit: int | None = None) -> AsyncIterator[Log]:
        assert limit == 1
        if run_id != self.held:
            raise NotFoundError("there is no such run", status=404)
        yield Log(cast(Any, ("an event",)), None, False)

    async def create_batch(self, run_id: str, events: Sequence[Event]) -> BatchResult:
        self.calls.append((run_id, len(events)))
        receipts = self._meet(events, Attempt(1, 200, 0.0, 0.1, "ok"))
        return BatchResult(run_id, receipts, Ledger(requests=2, throttled_s=1.5))

    async def create(self, run_id: str, event: Event, **_: Any) -> Receipt:
        self.calls.append((run_id, 1))
        return self._meet([event], Attempt(1, 429, 0.0, 0.1, "throttled"), Attempt(2, 200, 2.5, 0.1, "ok"))[0]

    def _meet(self, events: Sequence[Event], *attempts: Attempt) -> list[Receipt]:
        end = self.script.pop(0) if self.script else Outcome.CREATED
        if not isinstance(end, Outcome):
            raise end
        return [Receipt(at, event, end, Result(200), attempts=attempts) for at, event in enumerate(events)]


def replay_of(client: ScriptedClient, plans: Sequence[RunPlan], seen: list[Settled] | None = None) -> Replay:
    watch = seen if seen is not None else []
    return Replay(cast(EventClient, client), plans, clock=SystemClock(), on_settled=watch.append)


def hook_plan(tmp_path: Path) -> RunPlan:
    return record(
        tmp_path,
        [
            *START,
            {"eventType": "hook_created", "correlationId": "hook_a", "eventData": {"token": "t"}},
            {"eventType": "hook_received", "correlationId": "hook_a", "resumeId": "01A", "eventData": {}},
            {"eventType": "run_completed", "eventData": {}},
        ],
    )


class TestScripted:
    async def test_calls_and_sums(self, tmp_path: Path) -> None:
        client, seen = ScriptedClient(), list[Settled]()
        report = await replay_of(client, [hook_plan(tmp_path)], seen).run()
        assert client.calls == [(RUN, 3), (RUN, 1), (RUN, 1)]
        assert [item.index for item in seen] == [0, 1, 2, 3, 4]
        assert (report.totals.created, report.totals.requests) == (5, 2 + 2 + 2)
        assert report.totals.throttled_seconds == 1.5 + 2.5 + 1.5
        assert report.totals.applied

    async def test_a_held_run_is_refused_before_anything_is_written(self) -> None:
        plans = plans_of("js-spec7-mixed")
        client = ScriptedClient(held=plans[2].run_id)
        with pytest.raises(RunTakenError, match="nothing was written") as caught:
            await replay_of(client, plans).run()
        assert caught.value.run_ids == (plans[2].run_id,)
        assert client.calls == []

    async def test_a_spent_throttle_budget_stops_everything(self) -> None:
        plans = plans_of("js-spec7-mixed")
        error = ThrottleError("wait", retry_after=60, waited=0, budget=30)
        first = plans[0].postings
        attempts = (Attempt(1, 429, 0.0, 0.1, "throttled"),)
        sent = (Attempt(1, 200, 0.0, 0.1, "ok"),)
        error.receipts = (
            Receipt(0, first[0].event, Outcome.CREATED, Result(200), attempts=sent),
            *(
                Receipt(at, first[at].event, Outcome.UNSENT, Result(429), via="batch", attempts=attempts)
                for at in (1, 2, 3)
            ),
            *(Receipt(at, first[at].event, Outcome.UNSENT) for at in range(4, len(first))),
        )
        error.ledger = Ledger(requests=2)
        client = ScriptedClient(error)
        report = await replay_of(client, plans).run()
        assert report.stopped is error
        assert len(client.calls) == 1
        assert (report.totals.created, report.totals.unsent, report.totals.requests) == (1, 107, 2)

    async def test_a_refused_delivery_is_an_end_like_any_other(self, tmp_path: Path) -> None:
        plan = hook_plan(tmp_path)
        refusal = ConflictError("no", status=409)
        refusal.receipts = (Receipt(0, plan.postings[3].event, Outcome.CONFLICT, Result(409)),)
        report = await replay_of(ScriptedClient(Outcome.CREATED, refusal), [plan]).run()
        assert (report.stopped, report.totals.conflicts, report.totals.created) == (None, 1, 4)

    @pytest.mark.parametrize(
        "error", [AuthenticationError("no", status=401), TransportError("lost", ambiguous=True)]
    )
    async def test_an_error_the_next_event_would_meet_too_stops(
        self, tmp_path: Path, error: EventClientError
    ) -> None:
        plan = hook_plan(tmp_path)
        error.receipts = (Receipt(0, plan.postings[3].event, Outcome.UNKNOWN),)
        report = await replay_of(ScriptedClient(Outcome.CREATED, error), [plan]).run()
        assert report.stopped is error
        assert (report.totals.created, report.totals.unknown, report.totals.unsent) == (3, 1, 1)

    async def test_an_error_without_receipts_leaves_all_unsent(self, tmp_path: Path) -> None:
        report = await replay_of(ScriptedClient(EventClientError("no")), [hook_plan(tmp_path)]).run()
        assert (report.totals.unsent, report.totals.requests) == (5, 0)

    async def test_a_cancellation_keeps_what_was_settled(self, tmp_path: Path) -> None:
        plan = hook_plan(tmp_path)
        cancelled = asyncio.CancelledError()
        cast(Any, cancelled).receipts = (Receipt(0, plan.postings[0].event, Outcome.CREATED, Result(200)),)
        replay = replay_of(ScriptedClient(cancelled), [plan])
        with pytest.raises(asyncio.CancelledError):
            await replay.run()
        assert (replay.report.totals.created, replay.report.totals.unsent) == (1, 4)


@pytest.fixture(params=["batch", "single"])
def sending(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of sending must leave the same log."""
    monkeypatch.delenv("WORKFLOW_BATCH_TRANSITIONS", raising=False)
    if request.param == "single":
        monkeypatch.setenv("WORKFLOW_BATCH_TRANSITIONS", "0")
    return str(request.param)


async def replayed(plans: Sequence[RunPlan]) -> tuple[ReplayReport, dict[str, list[Any]]]:
    async with DevServer() as server, EventClient(server.url) as client:
        report = await Replay(client, plans, clock=SystemClock()).run()
        logs = {plan.run_id: await client.read_log(plan.run_id) for plan in plans}
    assert report.totals.requests == server.requests["batch"] + server.requests["single"]
    return report, logs


class TestAgainstTheServer:
    @pytest.mark.parametrize("name", ["js-spec7-fanout", "js-spec7-mixed", "py-spec5"])
    async def test_the_stored_log_is_the_recorded_one(self, name: str, sending: str) -> None:
        plans = plans_of(name)
        report, logs = await replayed(plans)
        assert report.stopped is None
        assert report.totals.applied
        assert report.totals.created == report.totals.events
        for plan in plans:
            log = logs[plan.run_id]
            assert [event.event_type for event in log] == [item.row.event_type for item in plan.postings]
            assert [event.correlation_id for event in log] == [
                item.event.correlation_id for item in plan.postings
            ]
            assert [event.payload or b"" for event in log] == [
                payload_of(item.event) for item in plan.postings
            ]
            assert [event.created_at for event in log] == [item.event.occurred_at for item in plan.postings]
            if name.startswith("js"):
                assert [event.event_id for event in log] == [item.row.event_id for item in plan.postings]

    async def test_a_fan_out_takes_few_requests(self, sending: str) -> None:
        report, _ = await replayed(plans_of("js-spec7-fanout"))
        assert report.totals.created == 153
        if sending == "batch":
            assert report.totals.requests <= 15
        else:
            assert report.totals.requests == 153

    async def test_a_run_below_slots_goes_as_single_posts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("WORKFLOW_BATCH_TRANSITIONS", raising=False)
        report, _ = await replayed(plans_of("py-spec5"))
        # Each run's first batch is refused once.
        assert report.totals.requests == 33 + 2

    async def test_what_the_recording_foretells_is_no_failure(self, tmp_path: Path, sending: str) -> None:
        wait = {"eventType": "wait_created", "correlationId": "wait_a", "eventData": {"resumeAt": WHEN}}
        step: dict[str, Any] = {"correlationId": "step_a"}
        plan = record(
            tmp_path,
            [
                *START,
                *[wait] * 40,
                {"eventType": "wait_completed", "correlationId": "wait_a"},
                {"eventType": "step_created", **step, "eventData": {"stepName": "s"}},
                {"eventType": "step_started", **step},
                {"eventType": "run_completed", "eventData": {}},
                {"eventType": "run_completed", "eventData": {}},
                {"eventType": "run_failed", "eventData": {}},
                {"eventType": "step_completed", **step, "eventData": {}},
                {"eventType": "step_failed", **step, "eventData": {}},
                {"eventType": "attr_set", "eventData": {"changes": [], "writer": {"type": "workflow"}}},
                {"eventType": "step_created", "correlationId": "step_b", "eventData": {"stepName": "s"}},
                {"eventType": "step_completed", "correlationId": "step_b", "eventData": {}},
                {**wait, "correlationId": "wait_b"},
                {"eventType": "run_started"},
                START[0],
            ],
        )
        report, logs = await replayed([plan])
        assert report.totals.applied
        assert report.totals.expected == 39 + 9
        assert report.totals.created == len(logs[RUN]) == report.totals.events - 48

    async def test_late_creates_are_moved_before_their_starts(self, tmp_path: Path, sending: str) -> None:
        rows: list[dict[str, Any]] = [START[1]]
        for key in ("step_a", "step_b"):
            rows.append({"eventType": "step_started", "correlationId": key})
            rows.append({"eventType": "step_created", "correlationId": key, "eventData": {"stepName": "s"}})
        report, logs = await replayed([record(tmp_path, [*rows, START[0]])])
        assert report.totals.applied
        assert [event.event_type for event in logs[RUN]] == [
            "run_created",
            "run_started",
            *["step_created", "step_started"] * 2,
        ]

    async def test_a_delivery_keeps_its_resume_id(self, tmp_path: Path) -> None:
        report, logs = await replayed([hook_plan(tmp_path)])
        assert report.totals.applied
        assert [event.resume_id for event in logs[RUN]] == [None, None, None, "01A", None]

    def conflicting(self, tmp_path: Path) -> list[RunPlan]:
        hook = {"eventType": "hook_created", "correlationId": "hook_a", "eventData": {"token": "t"}}
        conflict = {
            "eventType": "hook_conflict",
            "correlationId": "hook_a",
            "eventData": {"token": "t", "conflictingRunId": RUN},
        }
        return [record(tmp_path, [*START, hook]), record(tmp_path, [*START, conflict], OTHER)]

    @pytest.mark.parametrize("new_ids", [None, ["wrun_A", "wrun_B"]])
    async def test_a_taken_token_conflicts_again(self, tmp_path: Path, new_ids: list[str] | None) -> None:
        plans = self.conflicting(tmp_path)
        if new_ids:
            plans = rename_runs(plans, new_ids)
        report, logs = await replayed(plans)
        assert report.totals.applied
        last = logs[plans[1].run_id][-1]
        assert last.event_type == "hook_conflict"
        assert (last.event_data or {})["conflictingRunId"] == plans[0].run_id

    async def test_a_token_that_is_free_now_is_a_difference(self, tmp_path: Path) -> None:
        report, _ = await replayed(self.conflicting(tmp_path)[1:])
        assert (report.totals.differing, report.totals.applied) == (1, False)

    async def test_only_a_run_with_events_is_taken(self) -> None:
        plans = plans_of("js-spec7-mixed")
        async with DevServer() as server, EventClient(server.url) as client:
            await check_runs_are_free(client, [plan.run_id for plan in plans])
            await Replay(client, plans[1:2], clock=SystemClock()).run()
            with pytest.raises(RunTakenError) as caught:
                await Replay(client, plans, clock=SystemClock()).run()
            assert caught.value.run_ids == (plans[1].run_id,)
            with pytest.raises(NotFoundError):
                await client.read_log(plans[0].run_id)
