"""Events on a step of a run that has not ended, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.devserver.api import AT, RUN, Api
from tests.support.fake_clock import FakeClock

LATER = AT + timedelta(seconds=5, milliseconds=7)
STEP: dict[str, Any] = {"stepName": "work", "input": b"devlx"}


async def test_a_step_lives_from_creation_to_completion(api: Api) -> None:
    await api.running_run()
    created = (await api.post("step_created", "step_1", workflowName="flow", **STEP)).value
    assert created["step"] == {
        "runId": RUN,
        "stepId": "step_1",
        "stepName": "work",
        "status": "pending",
        "attempt": 0,
        "createdAt": AT,
        "updatedAt": AT,
        "specVersion": 7,
    }
    assert created["event"]["eventData"] == {"stepName": "work", "workflowName": "flow"}
    started = (await api.post("step_started", "step_1", at=LATER)).value
    assert started["step"]["status"] == "running"
    assert started["step"]["attempt"] == 1
    assert started["step"]["startedAt"] == LATER
    assert started["step"]["input"] == b"devlx"
    assert "stepCreated" not in started
    assert "eventData" not in started["event"]
    completed = (
        await api.post("step_completed", "step_1", at=LATER, result=b"devlr", ttfs=1.5, optimizations=["a"])
    ).value
    assert completed["step"]["status"] == "completed"
    assert completed["step"]["completedAt"] == LATER
    assert completed["step"]["attempt"] == 1
    assert completed["event"]["eventData"] == {"ttfs": 1.5, "optimizations": ["a"]}
    assert (await api.post("step_created", "step_1", **STEP)).status == 409


async def test_starting_a_running_step_again_counts_another_attempt(api: Api) -> None:
    await api.running_run()
    await api.all_taken([("step_created", "s", STEP), ("step_started", "s", {})])
    value = (await api.post("step_started", "s", at=LATER)).value
    assert value["step"]["attempt"] == 2
    assert value["step"]["startedAt"] == AT
    assert len(await api.log()) == 5


async def test_a_lazy_start_creates_its_step_in_two_rows(api: Api) -> None:
    await api.running_run()
    value = (
        await api.post("step_started", "s", at=LATER, workflowName="flow", ownerMessageId="msg_1", **STEP)
    ).value
    assert value["stepCreated"] is True
    assert value["step"]["attempt"] == 1
    assert value["step"]["createdAt"] == value["step"]["startedAt"] == LATER
    assert value["step"]["input"] == b"devlx"
    assert value["event"]["eventId"].endswith("04")
    rows = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events[2:]
    assert [row["eventType"] for row in rows] == ["step_created", "step_started"]
    assert rows[0]["eventData"] == {"stepName": "work"}
    assert rows[0]["body"] == b"devlx"
    assert rows[1]["eventData"] == {"stepName": "work", "workflowName": "flow", "ownerMessageId": "msg_1"}
    assert rows[1]["body"] == b""
    assert (await api.post("step_started", "s", **STEP)).status == 409
    assert len(await api.log()) == 4


async def test_a_lazy_start_needs_a_name(api: Api) -> None:
    await api.running_run()
    assert (await api.post("step_started", "s", input=b"devlx")).status == 400


@pytest.mark.parametrize("event_type", ["step_started", "step_completed", "step_failed", "step_retrying"])
async def test_a_step_has_to_exist_and_not_to_have_ended(api: Api, event_type: str) -> None:
    await api.running_run()
    unknown = await api.post(event_type, "s")
    assert (unknown.status, unknown.code) == (404, "step-not-found")
    for ending in ("step_completed", "step_failed"):
        await api.all_taken([("step_created", ending, STEP), (ending, ending, {})])
        ended = await api.post(event_type, ending)
        assert (ended.status, ended.code) == (409, "conflict")
    assert len(await api.log()) == 6


async def test_a_retried_step_waits_for_its_time(api: Api, clock: FakeClock) -> None:
    await api.running_run()
    await api.all_taken([("step_created", "s", STEP), ("step_started", "s", {})])
    retry_after = clock.wall() + timedelta(seconds=2.5)
    value = (await api.post("step_retrying", "s", error=b"devle", retryAfter=retry_after)).value
    assert value["step"]["status"] == "pending"
    assert value["step"]["retryAfter"] == retry_after
    early = await api.post("step_started", "s")
    assert (early.status, early.code, early.headers["Retry-After"]) == (425, "too-early", "3")
    clock.advance(2.5)
    started = (await api.post("step_started", "s")).value
    assert "retryAfter" not in started["step"]
    assert started["step"]["attempt"] == 2
    assert started["step"]["error"] == b"devle"
    completed = (await api.post("step_completed", "s")).value
    assert completed["step"]["status"] == "completed"


async def test_a_repeated_retry_is_appended(api: Api) -> None:
    await api.running_run()
    await api.all_taken([("step_created", "s", STEP), ("step_retrying", "s", {}), ("step_retrying", "s", {})])
    assert [name for name, _ in await api.log()][-2:] == ["step_retrying", "step_retrying"]


async def test_a_pending_step_can_end(api: Api) -> None:
    await api.running_run()
    await api.all_taken(
        [
            ("step_created", "a", STEP),
            ("step_created", "b", STEP),
            ("step_completed", "a", {"result": b"devl"}),
            ("step_failed", "b", {"error": b"devl"}),
        ]
    )
