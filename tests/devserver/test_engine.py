"""What holds for single posts of all types: missing runs, parts of the log, dates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eventclient.wire.params import WriteParams
from tests.devserver.api import AT, FRAMES, RUN, Api, raw_frame
from tests.support.fake_clock import FakeClock

LATER = AT + timedelta(seconds=5, milliseconds=7)
STEP: dict[str, Any] = {"stepName": "work", "input": b"devlx"}


@pytest.mark.parametrize(
    ("event_type", "c", "data"),
    [
        ("run_started", None, {}),
        ("run_completed", None, {}),
        ("run_failed", None, {}),
        ("run_cancelled", None, {}),
        ("attr_set", "a", {"changes": [], "writer": {"type": "workflow"}}),
        ("step_created", "s", STEP),
        ("step_started", "s", {}),
        ("step_started", "s", STEP),
        ("step_completed", "s", {}),
        ("step_failed", "s", {}),
        ("step_retrying", "s", {}),
        ("wait_created", "w", {"resumeAt": AT}),
        ("wait_completed", "w", {}),
        ("hook_created", "h", {"token": "t"}),
        ("hook_received", "h", {}),
        ("hook_disposed", "h", {}),
    ],
)
async def test_a_missing_run_is_not_found(
    api: Api, event_type: str, c: str | None, data: dict[str, Any]
) -> None:
    answer = await api.post(event_type, c, **data)
    assert (answer.status, answer.code) == (404, "run-not-found")
    assert (await api.pending_run()).value["event"]["eventId"].endswith("01")


async def test_a_cursor_is_answered_with_everything_behind_it(api: Api) -> None:
    await api.running_run()
    await api.all_taken([("step_created", "s", STEP)])
    params = WriteParams(since_cursor="eid:evnt_00000000000000000000000002", event_count=0)
    value = (await api.post("step_completed", "s", result=b"devlr", params=params)).value
    assert [row["eventType"] for row in value["events"]] == ["step_created", "step_completed"]
    assert value["events"][0]["eventData"]["input"] == b"devlx"
    assert value["events"][1]["eventData"]["result"] == b"devlr"
    assert value["cursor"] == "eid:evnt_00000000000000000000000004"
    assert value["hasMore"] is False


async def test_a_cursor_at_the_end_comes_back(api: Api) -> None:
    await api.running_run()
    cursor = "eid:evnt_00000000000000000000000002"
    params = WriteParams(since_cursor=cursor)
    value = (await api.post("run_started", params=params)).value
    assert (value["events"], value["cursor"], value["hasMore"]) == ([], cursor, False)


@pytest.mark.parametrize("cursor", ["nonsense", "eid:", "eid:evnt_1", "eid:evnt_00000000000000000000000000"])
async def test_a_cursor_of_another_kind_is_refused_and_nothing_written(api: Api, cursor: str) -> None:
    await api.running_run()
    answer = await api.post("step_created", "s", **STEP, params=WriteParams(since_cursor=cursor))
    assert (answer.status, answer.code) == (400, "invalid-cursor")
    assert len(await api.log()) == 2


async def test_skipped_slots_are_reported(api: Api) -> None:
    await api.running_run()
    await api.all_taken([("step_created", "s", STEP), ("step_created", "t", STEP)])
    value = (await api.post("step_created", "u", **STEP, params=WriteParams(event_count=2))).value
    assert [row["correlationId"] for row in value["events"]] == ["s", "t"]
    assert (value["cursor"], value["hasMore"]) == (None, False)
    next_to_it = (await api.post("step_created", "v", **STEP, params=WriteParams(event_count=5))).value
    assert not {"events", "cursor", "hasMore"} & set(next_to_it)


async def test_a_streamed_start_is_answered_with_the_whole_log(api: Api) -> None:
    await api.pending_run()
    answer = await api.post("run_started", headers=FRAMES)
    assert [row["eventType"] for row in answer.events] == ["run_created", "run_started"]
    assert answer.events[0]["body"] == b"devlin"
    assert answer.end == {"_end": 1, "next": "eid:evnt_00000000000000000000000002", "hasMore": False}
    assert answer.headers["x-wf-max-events"] == "25000"
    assert answer.headers["x-wf-event-id"] == "evnt_00000000000000000000000002"
    again = await api.post("run_started", headers=FRAMES)
    assert again.body == answer.body
    skipped = await api.post("run_started", headers=FRAMES, params=WriteParams(skip_preload=True))
    assert skipped.value["run"]["startedAt"] == AT
    missing = await api.post("run_started", run="wrun_missing", headers=FRAMES)
    assert (missing.status, missing.code) == (404, "run-not-found")


async def test_other_posts_are_never_answered_with_the_log(api: Api) -> None:
    await api.running_run()
    assert (await api.post("step_created", "s", headers=FRAMES, **STEP)).value["step"]["attempt"] == 0


async def test_an_event_without_a_date_is_dated_by_the_clock(api: Api, clock: FakeClock) -> None:
    clock.advance(1.2345678)
    meta: dict[str, Any] = {
        "eventType": "run_created",
        "specVersion": 7,
        "deploymentId": "d",
        "workflowName": "w",
    }
    value = (await api.send(f"/runs/{RUN}/events/run_created", raw_frame(**meta))).value
    assert value["run"]["createdAt"] == clock.wall().replace(microsecond=234000)
    assert value["event"]["createdAt"] == value["run"]["createdAt"]
