"""Flat posts and lists over HTTP, as the Python client uses them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eventclient.devserver.app import DevServer
from eventclient.model.ids import ulid_time
from tests.devserver.api import AT, RUN, Answer, Api
from tests.support.fake_clock import FakeClock

CREATED = {"deploymentId": "dpl", "workflowName": "flow", "input": b"devlin"}
RESUME = {"resumeId": "01M8N3CBJFGCK98VP8CKHQXT90", "resumePayloadDigest": "ab" * 32}


async def listed(api: Api, query: str = "") -> dict[str, Any]:
    return (await api.call("GET", f"/v3/runs/{RUN}/events{query}")).value


async def running(api: Api) -> None:
    assert (await api.flat("run_created", data=CREATED)).status == 200
    assert (await api.flat("run_started")).status == 200


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


async def test_a_run_from_its_start_to_its_end(api: Api, clock: FakeClock) -> None:
    created = (await api.flat("run_created", data=CREATED, remoteRefBehavior="resolve")).value
    assert created["event"]["eventData"] == CREATED
    assert (created["run"]["status"], created["run"]["input"]) == ("pending", b"devlin")
    started = (await api.flat("run_started", remoteRefBehavior="resolve")).value
    assert started["run"]["startedAt"] == clock.wall()
    assert "events" not in started
    await api.flat("step_created", "s", data={"stepName": "work", "input": b"devls"})
    step = (await api.flat("step_started", "s", remoteRefBehavior="resolve")).value["step"]
    assert (step["attempt"], step["stepName"], step["input"]) == (1, "work", b"devls")
    completed = (await api.flat("step_completed", "s", data={"result": b"devlr"})).value
    # Lazily, as this client asks for everything but starts and creations.
    assert "result" not in completed["event"]["eventData"]
    assert "output" not in completed["step"]
    await api.flat("run_completed", data={"output": b"devlo"}, remoteRefBehavior="lazy")
    run = (await api.call("GET", f"/v2/runs/{RUN}?remoteRefBehavior=resolve")).value
    assert (run["status"], run["output"], run["specVersion"]) == ("completed", b"devlo", 5)
    assert await api.log() == [
        ("run_created", None),
        ("run_started", None),
        ("step_created", "s"),
        ("step_started", "s"),
        ("step_completed", "s"),
        ("run_completed", None),
    ]


async def test_what_one_client_writes_the_other_reads(api: Api) -> None:
    await running(api)
    await api.post("step_created", "s", stepName="work", input=b"devl4")
    frames = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events
    flat = (await listed(api))["data"]
    assert [frame["body"] for frame in frames] == [b"devlin", b"", b"devl4"]
    assert [event["eventData"].get("input") for event in (flat[0], flat[2])] == [b"devlin", b"devl4"]
    assert "eventData" not in flat[1]
    for frame, event in zip(frames, flat, strict=True):
        assert {key: frame[key] for key in ("eventId", "eventType", "createdAt", "specVersion")} == {
            key: event[key] for key in ("eventId", "eventType", "createdAt", "specVersion")
        }


async def test_a_run_without_an_id_gets_one(api: Api, server: DevServer, clock: FakeClock) -> None:
    run = (await api.flat("run_created", run="null", data=CREATED)).value["run"]
    assert ulid_time(run["runId"]) == clock.wall()
    again = (await api.flat("run_created", run="null", data=CREATED)).value["run"]
    assert again["runId"] != run["runId"]
    assert refused(await api.flat("run_started", run="null")) == (400, "invalid-request")
    assert (await api.call("GET", "/v2/runs/null")).status == 404
    assert server.requests["flat"] == 3


async def test_a_start_that_overtook_the_creation_creates_the_run(api: Api) -> None:
    started = (await api.flat("run_started", data=CREATED, remoteRefBehavior="resolve")).value
    assert (started["run"]["status"], started["run"]["input"]) == ("running", b"devlin")
    assert refused(await api.flat("run_created", data=CREATED)) == (409, "conflict")
    again = (await api.flat("run_started", data=CREATED, remoteRefBehavior="resolve")).value
    assert again["run"] == started["run"]
    assert await api.log() == [("run_created", None), ("run_started", None)]


# -- refusals ----------------------------------------------------------------------------------


async def test_refusals_have_the_statuses_that_clients_tell_apart(api: Api, clock: FakeClock) -> None:
    assert refused(await api.flat("run_started")) == (404, "run-not-found")
    await running(api)
    assert refused(await api.flat("hook_received", "h", data={"payload": b"p"})) == (404, "hook-not-found")
    assert refused(await api.flat("hook_disposed", "h")) == (404, "hook-not-found")
    await api.flat("step_created", "s", data={"stepName": "work", "input": b"i"})
    again = await api.flat("step_created", "s", data={"stepName": "work", "input": b"i"})
    assert refused(again) == (409, "conflict")
    await api.flat("step_started", "s")
    at = clock.wall() + timedelta(seconds=90)
    await api.flat("step_retrying", "s", data={"error": b"e", "retryAfter": at})
    early = await api.flat("step_started", "s")
    assert refused(early) == (425, "too-early")
    assert early.headers["Retry-After"] == "90"
    await api.flat("run_failed", data={"error": b"e", "errorCode": "USER_ERROR"})
    assert refused(await api.flat("run_started")) == (410, "run-expired")
    assert refused(await api.flat("run_cancelled")) == (409, "conflict")


@pytest.mark.parametrize("body", [b"", b"\xa1\x01", b"\x80", b"{}"])
async def test_a_body_that_is_no_event_is_refused(api: Api, body: bytes) -> None:
    answer = await api.request("POST", f"/api/v3/runs/{RUN}/events", data=body)
    assert refused(answer) == (400, "malformed-body")


async def test_an_event_that_is_wrong_is_refused(api: Api) -> None:
    await running(api)
    wrong = [
        await api.flat("step_created", "s", data={"input": b"i"}),
        await api.flat("step_created", data={"stepName": "work", "input": b"i"}),
        await api.flat("step_created", "a\nb", data={"stepName": "work", "input": b"i"}),
        await api.flat("step_created", "s" * 257, data={"stepName": "work", "input": b"i"}),
        await api.flat("wait_created", "w", data={"resumeAt": "yesterday"}),
        await api.flat("hook_received", "h", data={"payload": b"p"}, resumeId="../x\0"),
        await api.flat("run_completed", data={"output": b"o"}, specVersion=8),
    ]
    assert [refused(answer) for answer in wrong] == [(400, "invalid-event")] * len(wrong)
    assert refused(await api.flat("noop")) == (400, "unknown-event-type")
    assert len(await api.log()) == 2


# -- payloads ----------------------------------------------------------------------------------


async def test_an_empty_payload_is_listed_as_one(api: Api) -> None:
    await api.flat("run_created", data={**CREATED, "input": b""})
    await api.flat("run_completed", data={"output": b""})
    data = [event["eventData"] for event in (await listed(api))["data"]]
    assert data == [{**CREATED, "input": b""}, {"output": b""}]
    lazy = (await listed(api, "?remoteRefBehavior=lazy"))["data"]
    assert lazy[1]["eventData"] == {}


async def test_an_error_of_any_shape_is_kept(api: Api) -> None:
    await running(api)
    await api.flat("run_failed", data={"error": {"message": "no", "stack": "here"}})
    frame = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events[-1]
    assert frame["body"] == b"\xa2\x67message\x62no\x65stack\x64here"


async def test_attributes_are_set_and_deleted(api: Api) -> None:
    await running(api)
    writer = {"type": "workflow"}
    changes: list[dict[str, Any]] = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    await api.flat("attr_set", "attr_1", data={"changes": changes, "writer": writer})
    changes = [{"key": "a", "value": None}]
    answer = await api.flat("attr_set", "attr_2", data={"changes": changes, "writer": writer})
    assert answer.value["run"]["attributes"] == {"b": "2"}
    assert answer.value["event"]["eventData"]["changes"] == changes
    assert (await listed(api))["data"][-1]["eventData"]["changes"] == changes


# -- hooks -------------------------------------------------------------------------------------


async def test_a_resume_that_is_delivered_twice_is_one_event(api: Api) -> None:
    await running(api)
    await api.flat("hook_created", "h", data={"token": "t", "isWebhook": False})
    at = AT - timedelta(minutes=5)
    fields: dict[str, Any] = {**RESUME, "occurredAt": at}
    first = (await api.flat("hook_received", "h", data={"payload": b"p", "token": "t"}, **fields)).value
    assert first["event"]["createdAt"] == at
    assert first["event"]["resumeId"] == RESUME["resumeId"]
    second = (await api.flat("hook_received", "h", data={"payload": b"p", "token": "t"}, **fields)).value
    assert second["event"] == first["event"]
    event = (await listed(api))["data"][-1]
    assert (event["resumeId"], event["eventData"]["payload"]) == (RESUME["resumeId"], b"p")
    assert len(await api.log()) == 4
    other = {**RESUME, "resumePayloadDigest": "cd" * 32}
    assert refused(await api.flat("hook_received", "h", data={"payload": b"q"}, **other)) == (409, "conflict")


@pytest.mark.parametrize("first", [True, False])
async def test_a_digest_that_was_sent_but_once_is_not_compared(api: Api, first: bool) -> None:
    await running(api)
    await api.flat("hook_created", "h", data={"token": "t"})
    await api.flat("hook_created", "h2", data={"token": "t2"})
    bare = {"resumeId": RESUME["resumeId"]}
    one, two = (RESUME, bare) if first else (bare, RESUME)
    await api.flat("hook_received", "h", data={"payload": b"p"}, **one)
    assert (await api.flat("hook_received", "h", data={"payload": b"p"}, **two)).status == 200
    assert len(await api.log()) == 5
    elsewhere = await api.flat("hook_received", "h2", data={"payload": b"p"}, **bare)
    assert refused(elsewhere) == (409, "conflict")


async def test_a_conflict_is_told_whole(api: Api) -> None:
    await running(api)
    await api.flat("hook_created", "h", data={"token": "t"})
    event = (await api.flat("hook_created", "h2", data={"token": "t"})).value["event"]
    assert (event["eventType"], event["correlationId"]) == ("hook_conflict", "h2")
    assert event["eventData"] == {"token": "t", "conflictingRunId": RUN}


# -- lists -------------------------------------------------------------------------------------


async def test_a_log_is_listed_in_pages(api: Api) -> None:
    await running(api)
    for name in ("a", "b", "c"):
        await api.flat("wait_created", name, data={"resumeAt": AT})
    first = await listed(api, "?limit=2&sortOrder=asc")
    assert [event["eventType"] for event in first["data"]] == ["run_created", "run_started"]
    assert first["hasMore"] is True
    rest = await listed(api, f"?cursor={first['cursor']}")
    assert [event["correlationId"] for event in rest["data"]] == ["a", "b", "c"]
    assert rest["hasMore"] is False
    assert rest["data"][0]["eventData"] == {"resumeAt": AT}
    # The position behind the last event serves to ask for what came since.
    assert await listed(api, f"?cursor={rest['cursor']}") == {
        "data": [],
        "cursor": rest["cursor"],
        "hasMore": False,
    }
    await api.flat("wait_completed", "a")
    delta = await listed(api, f"?cursor={rest['cursor']}")
    assert [event["eventType"] for event in delta["data"]] == ["wait_completed"]
    backwards = await listed(api, "?sortOrder=desc&limit=1")
    assert backwards["data"][0]["eventType"] == "wait_completed"
    everything = await listed(api, "?returnAll=true")
    assert len(everything["data"]) == 6


async def test_a_log_that_cannot_be_listed(api: Api) -> None:
    assert refused(await api.call("GET", f"/v3/runs/{RUN}/events")) == (404, "run-not-found")
    await running(api)
    bad = await api.call("GET", f"/v3/runs/{RUN}/events?cursor=runs:1")
    assert refused(bad) == (400, "invalid-cursor")
