"""Events on a run and its attributes, before it ends, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.devserver.api import AT, RUN, Api

LATER = AT + timedelta(seconds=5, milliseconds=7)
STEP: dict[str, Any] = {"stepName": "work", "input": b"devlx"}


async def test_a_run_is_created_pending_with_what_was_posted(api: Api) -> None:
    context = {"features": {"x": True}, "big": 2**40}
    answer = await api.pending_run(executionContext=context, attributes={"k": "v"}, encryptionPublicKey="key")
    value = answer.value
    assert answer.headers["x-wf-event-id"] == "evnt_00000000000000000000000001"
    assert value["maxEvents"] == 25000
    assert value["run"] == {
        "runId": RUN,
        "status": "pending",
        "deploymentId": "dpl",
        "workflowName": "flow",
        "createdAt": AT,
        "updatedAt": AT,
        "specVersion": 7,
        "attributes": {"k": "v"},
        "executionContext": context,
        "input": b"devlin",
        "encryptionPublicKey": "key",
    }
    assert value["event"] == {
        "eventType": "run_created",
        "runId": RUN,
        "eventId": "evnt_00000000000000000000000001",
        "createdAt": AT,
        "specVersion": 7,
        "eventData": {
            "deploymentId": "dpl",
            "workflowName": "flow",
            "input": b"devlin",
            "executionContext": context,
            "attributes": {"k": "v"},
            "encryptionPublicKey": "key",
        },
    }


async def test_a_run_id_is_used_once(api: Api) -> None:
    await api.pending_run()
    assert (await api.pending_run()).status == 409
    assert await api.log() == [("run_created", None)]


async def test_starting_a_run_stores_the_event_without_data(api: Api) -> None:
    await api.pending_run()
    value = (await api.post("run_started", at=LATER, deploymentId="other", input=b"devlother")).value
    assert value["run"]["status"] == "running"
    assert value["run"]["startedAt"] == LATER
    assert value["run"]["createdAt"] == AT
    assert value["run"]["input"] == b"devlin"
    assert "eventData" not in value["event"]


async def test_a_running_run_is_answered_with_its_first_start_and_no_new_event(api: Api) -> None:
    await api.running_run()
    value = (await api.post("run_started", at=LATER)).value
    assert value["event"]["eventId"].endswith("02")
    assert value["event"]["createdAt"] == AT
    assert value["run"]["startedAt"] == AT
    assert value["maxEvents"] == 25000
    assert len(await api.log()) == 2


async def test_a_start_with_creation_data_creates_the_run_and_the_late_creation_meets_409(api: Api) -> None:
    value = (
        await api.post(
            "run_started",
            at=LATER,
            deploymentId="dpl",
            workflowName="flow",
            input=b"devlin",
            attributes={"a": "b"},
        )
    ).value
    assert value["event"]["eventId"].endswith("02")
    assert value["run"]["status"] == "running"
    assert value["run"]["attributes"] == {"a": "b"}
    assert (await api.pending_run()).status == 409
    rows = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events
    assert [row["eventType"] for row in rows] == ["run_created", "run_started"]
    assert rows[0]["eventData"] == {"deploymentId": "dpl", "workflowName": "flow", "attributes": {"a": "b"}}
    assert rows[0]["body"] == b"devlin"
    assert "eventData" not in rows[1]


@pytest.mark.parametrize("missing", ["deploymentId", "workflowName", "input"])
async def test_a_start_without_all_creation_data_needs_its_run(api: Api, missing: str) -> None:
    data: dict[str, Any] = {"deploymentId": "dpl", "workflowName": "flow", "input": b"devlin"}
    del data[missing]
    answer = await api.post("run_started", **data)
    assert (answer.status, answer.code) == (404, "run-not-found")


@pytest.mark.parametrize(
    ("event_type", "data", "status", "members"),
    [
        ("run_completed", {"output": b"devlout"}, "completed", {}),
        ("run_completed", {}, "completed", {}),
        ("run_failed", {"error": b"devle", "errorCode": "USER_ERROR"}, "failed", {"errorCode": "USER_ERROR"}),
        ("run_cancelled", {"cancelReason": "enough"}, "cancelled", {}),
        ("run_cancelled", {}, "cancelled", {}),
    ],
)
@pytest.mark.parametrize("start", [True, False])
async def test_a_run_ends_pending_or_running(
    api: Api, event_type: str, data: dict[str, Any], status: str, members: dict[str, Any], start: bool
) -> None:
    await api.pending_run()
    if start:
        await api.post("run_started")
    value = (await api.post(event_type, at=LATER, **data)).value
    assert value["run"]["status"] == status
    assert value["run"]["completedAt"] == LATER
    assert value["maxEvents"] == 25000
    # Singles of these types do not ask for payloads.
    assert not {"output", "error", "input"} & set(value["run"])
    assert value["run"].get("errorCode") == members.get("errorCode")
    last = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events[-1]
    assert last["body"] == data.get("output", data.get("error", b""))


# -- attributes --------------------------------------------------------------------------------


def changes(*pairs: tuple[str, str | None]) -> dict[str, Any]:
    return {"changes": [{"key": key, "value": value} for key, value in pairs], "writer": {"type": "workflow"}}


async def test_attributes_are_merged_and_null_deletes(api: Api) -> None:
    await api.pending_run(attributes={"keep": "1", "drop": "2"})
    value = (await api.post("attr_set", "attr_1", at=LATER, **changes(("new", "3"), ("drop", None)))).value
    assert value["run"]["attributes"] == {"keep": "1", "new": "3"}
    assert value["run"]["updatedAt"] == LATER
    assert value["run"]["status"] == "pending"
    assert value["event"]["eventData"] == changes(("new", "3"), ("drop", None))


async def test_a_workflows_second_attr_set_of_one_correlation_id_is_answered_with_the_first(api: Api) -> None:
    await api.running_run()
    first = (await api.post("attr_set", "attr_1", **changes(("a", "1")))).value
    second = (await api.post("attr_set", "attr_1", at=LATER, **changes(("a", "2")))).value
    assert second["event"] == first["event"]
    assert second["run"]["attributes"] == {"a": "1"}
    assert len(await api.log()) == 3


async def test_a_steps_attr_set_is_always_appended(api: Api) -> None:
    await api.running_run()
    data: dict[str, Any] = {
        **changes(("a", "1")),
        "writer": {"type": "step", "stepId": "step_1", "attempt": 1},
    }
    for _ in range(2):
        assert (await api.post("attr_set", None, **data)).status == 200
    assert len(await api.log()) == 4


@pytest.mark.parametrize(
    "pairs",
    [
        [("", "x")],
        [("k" * 257, "x")],
        [("k", "é" * 129)],
        [("k", "1"), ("k", "2")],
        [("$retention", "0")],
        [(f"k{number}", "x") for number in range(65)],
    ],
)
async def test_attributes_out_of_bounds_are_refused(api: Api, pairs: list[tuple[str, str | None]]) -> None:
    await api.running_run()
    answer = await api.post("attr_set", "attr_1", **changes(*pairs))
    assert (answer.status, answer.code) == (400, "invalid-event")
    refused = await api.post(
        "run_created", run="wrun_other", deploymentId="d", workflowName="w", attributes={"$x": "1"}
    )
    assert (refused.status, refused.code) == (400, "invalid-event")
    start: dict[str, Any] = {
        "deploymentId": "d",
        "workflowName": "w",
        "input": b"x",
        "attributes": {"$x": "1"},
    }
    assert (await api.post("run_started", run="wrun_other", **start)).status == 400
    assert len(await api.log()) == 2


async def test_reserved_attributes_are_for_those_who_say_so(api: Api) -> None:
    await api.running_run()
    data: dict[str, Any] = {**changes(("$retention", "0")), "allowReservedAttributes": True}
    value = (await api.post("attr_set", "attr_1", **data)).value
    assert value["run"]["attributes"] == {"$retention": "0"}
