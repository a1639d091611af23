"""Runs from before event sourcing, and what is changed without an event."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient.devserver.engine import Engine
from eventclient.devserver.legacy import DirectChanges, mint_run_id
from eventclient.devserver.notices import Notices
from eventclient.devserver.state import Changes
from eventclient.model.ids import ulid_time
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused
from tests.devserver.api import AT, RUN, Answer, Api
from tests.devserver.conftest import MakeStore
from tests.devserver.saved import run as saved_run
from tests.devserver.saved import save
from tests.support.fake_clock import FakeClock

NEW = {"deploymentId": "dpl", "workflowName": "flow", "input": [["Map", 1], {"a": None}]}


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


async def legacy_run(api: Api, **data: Any) -> str:
    run_id: str = (await api.call("POST", "/v1/runs/create", {**NEW, **data})).value["runId"]
    return run_id


async def post(api: Api, run_id: str, event_type: str, **fields: Any) -> Answer:
    return await api.call("POST", f"/v1/runs/{run_id}/events", {"eventType": event_type, **fields})


# -- create ------------------------------------------------------------------------------------


async def test_a_run_is_created_without_an_event(api: Api, clock: FakeClock) -> None:
    run = (await api.call("POST", "/v1/runs/create", {**NEW, "executionContext": {"v": 1}})).value
    assert run == {
        **NEW,
        "runId": run["runId"],
        "status": "pending",
        "createdAt": clock.wall(),
        "updatedAt": clock.wall(),
        "specVersion": 1,
        "attributes": {},
        "executionContext": {"v": 1},
    }
    assert ulid_time(run["runId"]) == clock.wall()
    assert (await api.call("GET", f"/v2/runs/{run['runId']}")).value == run
    assert await api.log(run["runId"]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"deploymentId": None},
        {"workflowName": 1},
        {"attributes": {"$x": "1"}},
        {"executionContext": {"long": "x" * 2048}},
        {"input": 2**70},
    ],
)
async def test_a_run_that_is_wrong_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    if "input" in wrong:
        # The largest that CBOR says shortly, and no float64.
        body = b"\xa3\x6cdeploymentId\x61d\x6cworkflowName\x61w\x65input\x1b" + b"\xff" * 8
        answer = await api.request("POST", "/api/v1/runs/create", data=body)
    else:
        answer = await api.call("POST", "/v1/runs/create", {**NEW, **wrong})
    assert refused(answer) == (400, "invalid-event")
    assert (await api.call("GET", "/v2/runs")).value["data"] == []


async def test_a_body_has_to_be_a_map(api: Api) -> None:
    for method, path in (
        ("POST", "/v1/runs/create"),
        ("POST", f"/v1/runs/{RUN}/events"),
        ("POST", f"/v2/runs/{RUN}/attributes"),
    ):
        answer = await api.request(method, f"/api{path}", data=b"\x80")
        assert refused(answer) == (400, "malformed-body")


def test_every_run_id_is_another() -> None:
    assert len({mint_run_id(AT) for _ in range(100)}) == 100


# -- events ------------------------------------------------------------------------------------


async def test_deliveries_are_logged_and_change_nothing(api: Api) -> None:
    run_id = await legacy_run(api)
    waited = (await post(api, run_id, "wait_completed", correlationId="w")).value
    assert (waited["eventType"], waited["runId"], waited["correlationId"]) == ("wait_completed", run_id, "w")
    received = (
        await post(api, run_id, "hook_received", correlationId="h", eventData={"payload": b"p"})
    ).value
    # The answer is the event itself, and not its payload.
    assert received["eventId"] == waited["eventId"][:-1] + "2"
    assert received["eventData"] == {}
    assert await api.log(run_id) == [("wait_completed", "w"), ("hook_received", "h")]
    assert (await api.call("GET", f"/v2/runs/{run_id}")).value["status"] == "pending"
    row = (await api.get(f"/runs/{run_id}/events?returnAll=true")).events[1]
    assert row["body"] == b"p"


async def test_a_payload_may_be_any_value(api: Api) -> None:
    run_id = await legacy_run(api)
    data = {"payload": [1, "two"]}
    received = await post(
        api, run_id, "hook_received", correlationId="h", eventData=data, remoteRefBehavior="resolve"
    )
    assert received.value["eventData"] == {"payload": b"\x82\x01\x63two"}


async def test_a_resume_of_an_old_run_is_delivered_once(api: Api) -> None:
    run_id = await legacy_run(api)
    resume = {"resumeId": "r", "resumePayloadDigest": "d", "eventData": {"payload": b"p"}}
    first = await post(api, run_id, "hook_received", correlationId="h", **resume)
    assert (await post(api, run_id, "hook_received", correlationId="h", **resume)).value == first.value
    assert refused(await post(api, run_id, "hook_received", correlationId="h2", **resume)) == (
        409,
        "conflict",
    )
    assert len(await api.log(run_id)) == 1


@pytest.mark.parametrize(
    ("event_type", "fields"),
    [
        ("run_started", {}),
        ("run_completed", {"eventData": {"output": b"o"}}),
        ("step_created", {"correlationId": "s", "eventData": {"stepName": "n", "input": b"i"}}),
        ("step_completed", {"correlationId": "s", "eventData": {"result": b"r"}}),
        ("wait_created", {"correlationId": "w", "eventData": {"resumeAt": AT}}),
        ("hook_created", {"correlationId": "h", "eventData": {"token": "t"}}),
    ],
)
async def test_an_old_run_takes_no_other_events(api: Api, event_type: str, fields: dict[str, Any]) -> None:
    run_id = await legacy_run(api)
    assert refused(await post(api, run_id, event_type, **fields)) == (400, "unsupported-spec-version")
    flat = await api.call("POST", f"/v3/runs/{run_id}/events", {"eventType": event_type, **fields})
    assert refused(flat) == (400, "unsupported-spec-version")
    assert await api.log(run_id) == []


async def test_a_newer_run_takes_events_on_this_route_too(api: Api) -> None:
    await api.running_run()
    created = {"stepName": "work", "input": b"i"}
    event = (await post(api, RUN, "step_created", correlationId="s", eventData=created)).value
    assert event["eventData"] == {"stepName": "work"}
    again = await post(api, RUN, "step_created", correlationId="s", eventData=created)
    assert refused(again) == (409, "conflict")


async def test_a_run_newer_than_the_server_takes_nothing(make_store: MakeStore, clock: FakeClock) -> None:
    store = make_store()
    await store.open()
    await save(store, Changes(run=saved_run(RUN, specVersion=8), last_slot=0))
    result = await Engine(store, clock).create(RUN, PostedEvent("run_completed", {}, b""))
    assert isinstance(result, Refused)
    assert (result.status, result.code) == (400, "unsupported-spec-version")
    await store.aclose()


# -- cancel ------------------------------------------------------------------------------------


async def test_an_old_run_is_cancelled_without_an_event(api: Api, clock: FakeClock) -> None:
    run_id = await legacy_run(api)
    clock.advance(5)
    run = (await api.call("PUT", f"/v1/runs/{run_id}/cancel?remoteRefBehavior=lazy")).value
    assert (run["status"], run["completedAt"], run["updatedAt"]) == ("cancelled", *[clock.wall()] * 2)
    assert "input" not in run
    clock.advance(5)
    again = (await api.call("PUT", f"/v1/runs/{run_id}/cancel?remoteRefBehavior=resolve")).value
    assert again == {**run, "input": NEW["input"]}
    assert await api.log(run_id) == []
    received = await post(api, run_id, "hook_received", correlationId="h", eventData={"payload": b"p"})
    assert refused(received) == (410, "run-expired")


async def test_a_newer_run_is_cancelled_with_one(api: Api) -> None:
    await api.running_run()
    run = (await api.call("PUT", f"/v1/runs/{RUN}/cancel")).value
    assert run["status"] == "cancelled"
    assert (await api.log())[-1] == ("run_cancelled", None)
    assert refused(await api.call("PUT", f"/v1/runs/{RUN}/cancel")) == (409, "conflict")


async def test_an_old_run_that_is_cancelled_by_event_has_one(api: Api) -> None:
    run_id = await legacy_run(api)
    assert (await api.post("run_cancelled", run=run_id)).value["run"]["status"] == "cancelled"
    assert (await api.call("PUT", f"/v1/runs/{run_id}/cancel")).value["status"] == "cancelled"
    assert await api.log(run_id) == [("run_cancelled", None)]


async def test_a_run_that_is_not_there_is_not_cancelled(api: Api) -> None:
    assert refused(await api.call("PUT", f"/v1/runs/{RUN}/cancel")) == (404, "run-not-found")


@pytest.mark.parametrize("version", [None, 1])
async def test_a_run_that_ended_otherwise_is_not_cancelled(
    make_store: MakeStore, clock: FakeClock, version: int | None
) -> None:
    store = make_store()
    await store.open()
    run = saved_run(RUN, specVersion=version, status="completed", completedAt=AT)
    await save(store, Changes(run=run, last_slot=0))
    result = await DirectChanges(store, Notices(), clock).cancel(RUN)
    assert isinstance(result, Refused)
    assert (result.status, result.code) == (409, "conflict")
    await store.aclose()


# -- attributes --------------------------------------------------------------------------------


async def test_attributes_are_set_without_an_event(api: Api, clock: FakeClock) -> None:
    await api.pending_run(attributes={"a": "1", "b": "2"})
    path = f"/v2/runs/{RUN}/attributes"
    changes: list[dict[str, Any]] = [{"key": "a", "value": None}, {"key": "c", "value": "3"}]
    assert (await api.call("POST", path, {"changes": changes})).value == {"attributes": {"b": "2", "c": "3"}}
    run = (await api.call("GET", f"/v2/runs/{RUN}")).value
    assert (run["attributes"], run["updatedAt"]) == ({"b": "2", "c": "3"}, clock.wall())
    assert await api.log() == [("run_created", None)]
    reserved = {"changes": [{"key": "$x", "value": "4"}]}
    assert refused(await api.call("POST", path, reserved)) == (400, "invalid-event")
    answer = await api.call("POST", path, {**reserved, "allowReservedAttributes": True})
    assert answer.value["attributes"] == {"b": "2", "c": "3", "$x": "4"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid-event"),
        ({"changes": {"a": "1"}}, "invalid-event"),
        ({"changes": [{"key": 1, "value": "x"}]}, "invalid-event"),
        ({"changes": [{"key": "", "value": "x"}]}, "invalid-event"),
        ({"changes": [], "allowReservedAttributes": "yes"}, "invalid-request"),
    ],
)
async def test_attributes_that_are_wrong_are_refused(api: Api, body: dict[str, Any], code: str) -> None:
    await api.pending_run()
    assert refused(await api.call("POST", f"/v2/runs/{RUN}/attributes", body)) == (400, code)


async def test_a_run_that_is_not_there_has_no_attributes(api: Api) -> None:
    answer = await api.call("POST", f"/v2/runs/{RUN}/attributes", {"changes": []})
    assert refused(answer) == (404, "run-not-found")
