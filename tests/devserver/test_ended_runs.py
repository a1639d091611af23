"""What each event meets on a run that has ended, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import Any

import pytest

from tests.devserver.api import AT, Api, event
from tests.support.fake_clock import FakeClock

CHANGES: dict[str, Any] = {"changes": [{"key": "k", "value": "v"}], "writer": {"type": "workflow"}}
CREATION = {"deploymentId": "d", "workflowName": "w", "input": b"devl"}
STEP: dict[str, Any] = {"stepName": "work", "input": b"devl"}
STARTED = ("running", "running2", "done")
ENDS = ("run_completed", "run_failed", "run_cancelled")


async def ended_run(api: Api, clock: FakeClock, end: str) -> int:
    """Ends a run that has something of everything; the number of its events."""
    await api.running_run()
    born = [[event("step_created", c, **STEP), event("step_started", c)] for c in STARTED]
    waits = [event("wait_created", c, resumeAt=AT) for c in ("wait", "waited")]
    first = await api.batch(event("step_created", "pending", **STEP), *chain(*born), *waits)
    second = await api.batch(event("step_completed", "done"), event("wait_completed", "waited"))
    assert {*first.statuses, *second.statuses} == {200}
    retained = {"token": "b", "tokenRetentionUntil": clock.wall() + timedelta(hours=1)}
    await api.all_taken(
        [
            ("hook_created", "hook", {"token": "a"}),
            ("hook_created", "retained", retained),
            ("attr_set", "attr", CHANGES),
            (end, None, {}),
        ]
    )
    return len(await api.log())


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("event_type", "c", "data", "status"),
    [
        ("run_created", None, CREATION, 409),
        ("run_started", None, {}, 410),
        ("run_started", None, CREATION, 410),
        ("run_completed", None, {}, 409),
        ("run_failed", None, {}, 409),
        ("run_cancelled", None, {}, 409),
        ("attr_set", "attr_2", CHANGES, 409),
        ("step_created", "new", STEP, 409),
        ("step_created", "running", STEP, 409),
        ("wait_created", "new", {"resumeAt": AT}, 409),
        ("hook_created", "new", {"token": "c"}, 409),
        ("hook_created", "new", {"token": "a"}, 409),
        ("step_started", "new", STEP, 409),
        ("step_started", "running", STEP, 409),
        ("step_started", "pending", {}, 410),
        ("step_started", "running", {}, 410),
        ("step_started", "done", {}, 409),
        ("step_started", "nobody", {}, 404),
        ("step_failed", "running", {"error": b"devl"}, 200),
        ("step_failed", "pending", {"error": b"devl"}, 410),
        ("step_failed", "done", {}, 409),
        ("step_failed", "nobody", {}, 404),
        ("step_completed", "running", {"result": b"devl"}, 200),
        ("step_completed", "pending", {}, 200),
        ("step_completed", "done", {}, 409),
        ("step_completed", "nobody", {}, 404),
        ("step_retrying", "running", {}, 200),
        ("step_retrying", "pending", {}, 200),
        ("step_retrying", "done", {}, 409),
        ("wait_completed", "wait", {}, 404),
        ("wait_completed", "waited", {}, 404),
        ("hook_received", "hook", {}, 404),
        ("hook_received", "retained", {}, 410),
        ("hook_disposed", "hook", {}, 404),
        ("hook_disposed", "retained", {}, 200),
    ],
)
async def test_what_an_event_meets(
    api: Api, clock: FakeClock, end: str, event_type: str, c: str | None, data: dict[str, Any], status: int
) -> None:
    count = await ended_run(api, clock, end)
    answer = await api.post(event_type, c, **data)
    assert answer.status == status
    if status == 410:
        assert answer.code == "run-expired"
    elif status == 409:
        assert answer.code == "conflict"
    assert len(await api.log()) == count + (status == 200)


async def test_a_repeated_attr_set_still_finds_its_event(api: Api, clock: FakeClock) -> None:
    count = await ended_run(api, clock, "run_completed")
    value = (await api.post("attr_set", "attr", **CHANGES)).value
    assert value["event"]["correlationId"] == "attr"
    assert len(await api.log()) == count
