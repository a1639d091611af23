"""Runs, steps and hooks read over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.devserver.api import AT, RUN, Answer, Api
from tests.support.fake_clock import FakeClock

OTHER = "wrun_01M8N3CBJFGCK98VP8CKHQXT85"
CAPABLE = {"hookResumeDedupVersion": 1}


def ids(answer: Answer, key: str) -> list[str]:
    return [item[key] for item in answer.value["data"]]


async def pages(api: Api, path: str, key: str) -> list[list[str]]:
    """The ids of each page, all pages of a list."""
    found = []
    answer = await api.call("GET", path)
    while True:
        assert set(answer.value) == {"data", "cursor", "hasMore"}
        found.append(ids(answer, key))
        if not answer.value["hasMore"]:
            return found
        answer = await api.call("GET", f"{path}&cursor={answer.value['cursor']}")


# -- runs --------------------------------------------------------------------------------------


async def test_a_run_is_read_with_its_payloads_unless_lazily(api: Api) -> None:
    await api.pending_run(executionContext={"workflowCoreVersion": "5.0.0"}, attributes={"team": "a"})
    run = (await api.call("GET", f"/v2/runs/{RUN}")).value
    assert run == {
        "runId": RUN,
        "status": "pending",
        "deploymentId": "dpl",
        "workflowName": "flow",
        "createdAt": AT,
        "updatedAt": AT,
        "specVersion": 7,
        "attributes": {"team": "a"},
        "executionContext": {"workflowCoreVersion": "5.0.0"},
        "input": b"devlin",
    }
    resolved = await api.call("GET", f"/v2/runs/{RUN}?remoteRefBehavior=resolve")
    assert resolved.value == run
    lazy = (await api.call("GET", f"/v2/runs/{RUN}?remoteRefBehavior=lazy")).value
    assert lazy == {key: value for key, value in run.items() if key != "input"}


@pytest.mark.parametrize("path", [f"/v2/runs/{RUN}", f"/v2/runs/{RUN}/status"])
async def test_a_run_that_is_not_there(api: Api, path: str) -> None:
    answer = await api.call("GET", path)
    assert (answer.status, answer.code) == (404, "run-not-found")


async def some_runs(api: Api) -> list[str]:
    """Five runs: the third is of another workflow, the fourth and the fifth run."""
    run_ids = [f"wrun_{number}" for number in range(1, 6)]
    for run_id in run_ids[:3]:
        name = "other" if run_id == "wrun_3" else "flow"
        assert (await api.pending_run(run_id, workflowName=name)).status == 200
    for run_id in run_ids[3:]:
        await api.running_run(run_id)
    return run_ids


async def test_runs_are_listed_newest_first(api: Api) -> None:
    run_ids = await some_runs(api)
    assert await pages(api, "/v2/runs?", "runId") == [run_ids[::-1]]
    assert await pages(api, "/v2/runs?sortOrder=asc", "runId") == [run_ids]
    lazy = await api.call("GET", "/v2/runs?remoteRefBehavior=lazy")
    assert all("input" not in run for run in lazy.value["data"])
    full = await api.call("GET", "/v2/runs?remoteRefBehavior=resolve")
    assert all(run["input"] == b"devlin" for run in full.value["data"])


async def test_runs_are_listed_in_pages(api: Api) -> None:
    await some_runs(api)
    assert await pages(api, "/v2/runs?limit=2", "runId") == [
        ["wrun_5", "wrun_4"],
        ["wrun_3", "wrun_2"],
        ["wrun_1"],
    ]
    assert await pages(api, "/v2/runs?limit=5&sortOrder=asc", "runId") == [
        ["wrun_1", "wrun_2", "wrun_3", "wrun_4", "wrun_5"]
    ]


async def test_a_page_shows_runs_that_came_after_the_one_before(api: Api) -> None:
    await some_runs(api)
    first = (await api.call("GET", "/v2/runs?sortOrder=asc")).value
    nothing = (await api.call("GET", f"/v2/runs?sortOrder=asc&cursor={first['cursor']}")).value
    assert nothing == {"data": [], "cursor": first["cursor"], "hasMore": False}
    await api.pending_run("wrun_6")
    later = await api.call("GET", f"/v2/runs?sortOrder=asc&cursor={first['cursor']}")
    assert ids(later, "runId") == ["wrun_6"]


async def test_an_empty_list_has_no_position(api: Api) -> None:
    for path in ("/v2/runs", f"/v2/runs/{RUN}/steps", "/v2/hooks"):
        empty = await api.call("GET", path)
        assert empty.value == {"data": [], "cursor": None, "hasMore": False}


async def test_runs_are_found_by_workflow_and_status(api: Api) -> None:
    await some_runs(api)
    found = await pages(api, "/v2/runs?workflowName=flow&status=pending&limit=1", "runId")
    assert found == [["wrun_2"], ["wrun_1"]]
    assert await pages(api, "/v2/runs?workflowName=other", "runId") == [["wrun_3"]]
    assert await pages(api, "/v2/runs?status=running", "runId") == [["wrun_5", "wrun_4"]]
    assert await pages(api, "/v2/runs?status=failed", "runId") == [[]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cursor=nonsense", "invalid-cursor"),
        ("cursor=runs:", "invalid-cursor"),
        ("cursor=runs:-1", "invalid-cursor"),
        ("cursor=steps:1", "invalid-cursor"),
        ("cursor=", "invalid-cursor"),
        ("cursor=runs:99999999999999999999", "invalid-cursor"),
        ("limit=0", "invalid-request"),
        ("sortOrder=up", "invalid-request"),
        ("status=done", "invalid-request"),
        ("status=absent", "invalid-request"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(api: Api, query: str, code: str) -> None:
    answer = await api.call("GET", f"/v2/runs?{query}")
    assert (answer.status, answer.code) == (400, code)


# -- steps -------------------------------------------------------------------------------------


async def test_a_step_is_read_with_its_payloads_unless_lazily(api: Api) -> None:
    await api.running_run()
    await api.post("step_created", "s", stepName="work", input=b"devlin")
    await api.post("step_started", "s")
    await api.post("step_completed", "s", result=b"devlout")
    path = f"/v2/runs/{RUN}/steps/s"
    step = (await api.call("GET", f"{path}?remoteRefBehavior=resolve")).value
    assert step == {
        "runId": RUN,
        "stepId": "s",
        "stepName": "work",
        "status": "completed",
        "attempt": 1,
        "createdAt": AT,
        "updatedAt": AT,
        "startedAt": AT,
        "completedAt": AT,
        "specVersion": 7,
        "input": b"devlin",
        "output": b"devlout",
    }
    lazy = (await api.call("GET", f"{path}?remoteRefBehavior=lazy")).value
    assert {"input", "output"}.isdisjoint(lazy)
    assert lazy["status"] == "completed"


async def test_steps_are_listed_newest_first_by_twenty(api: Api) -> None:
    await api.running_run()
    names = [f"s{number:02}" for number in range(25)]
    for name in names:
        await api.post("step_created", name, stepName="work", input=b"devlin")
    await api.running_run(OTHER)
    await api.post("step_created", "s00", run=OTHER, stepName="work", input=b"devlin")
    newest = names[::-1]
    path = f"/v2/runs/{RUN}/steps?"
    assert await pages(api, path, "stepId") == [newest[:20], newest[20:]]
    assert await pages(api, f"{path}sortOrder=asc&limit=13", "stepId") == [names[:13], names[13:]]
    assert await pages(api, f"/v2/runs/{OTHER}/steps?", "stepId") == [["s00"]]


async def test_a_step_that_is_not_there(api: Api) -> None:
    await api.running_run()
    for run_id in (RUN, OTHER):
        answer = await api.call("GET", f"/v2/runs/{run_id}/steps/s")
        assert (answer.status, answer.code) == (404, "step-not-found")
    cursor = await api.call("GET", f"/v2/runs/{RUN}/steps?cursor=runs:1")
    assert (cursor.status, cursor.code) == (400, "invalid-cursor")


# -- hooks -------------------------------------------------------------------------------------


async def test_a_hook_tells_of_its_run(api: Api) -> None:
    context = {
        "workflowCoreVersion": "5.0.0-beta.55",
        "traceCarrier": {"traceparent": "00-1-2-01"},
        "hookResumeInputVersion": 1,
        "somethingElse": True,
    }
    await api.pending_run(executionContext=context, encryptionPublicKey="key")
    await api.post("run_started")
    created = (await api.post("hook_created", "h", token="tok", metadata=b"devlm")).value["hook"]
    assert created["resumeContext"] == {
        "deploymentId": "dpl",
        "workflowName": "flow",
        "runSpecVersion": 7,
        "workflowCoreVersion": "5.0.0-beta.55",
        "traceCarrier": {"traceparent": "00-1-2-01"},
        "encryptionPublicKey": "key",
        "hookResumeInputVersion": 1,
    }
    by_id = (await api.call("GET", "/v2/hooks/h")).value
    assert by_id == {**created, "metadata": b"devlm"}
    by_token = (await api.call("GET", "/v2/hooks/by-token?token=tok")).value
    assert by_token == {**by_id, "resumeCapabilities": CAPABLE}
    # What is attested is computed for that answer alone.
    assert (await api.call("GET", "/v2/hooks/h")).value == by_id


@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        {"workflowCoreVersion": 5, "traceCarrier": {"n": 1}, "hookResumeInputVersion": "1"},
        {"traceCarrier": "text", "hookResumeInputVersion": True},
    ],
)
async def test_a_hook_leaves_out_what_its_readers_would_refuse(api: Api, context: Any) -> None:
    await api.pending_run(**({} if context is None else {"executionContext": context}))
    hook = (await api.post("hook_created", "h", token="tok")).value["hook"]
    assert hook["resumeContext"] == {"deploymentId": "dpl", "workflowName": "flow", "runSpecVersion": 7}


@pytest.mark.parametrize(
    ("token", "query"),
    [
        ("plain", "plain"),
        ("with space", "with%20space"),
        ("with space", "with+space"),
        ("a+b", "a+b"),
        ("a+b", "a%2Bb"),
        ("a&b=c#d", "a%26b%3Dc%23d"),
        ("a=b", "a=b"),
        ("ä/ö?", "%C3%A4/%C3%B6?"),
        ("long" * 500, "long" * 500),
    ],
)
async def test_a_token_is_found_as_clients_write_it(api: Api, token: str, query: str) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token=token)
    answer = await api.call("GET", f"/v2/hooks/by-token?token={query}")
    assert answer.value["hookId"] == "h"


async def test_a_token_is_taken_literally_where_it_can_be(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "spaced", token="a b")
    await api.post("hook_created", "added", token="a+b")
    answer = await api.call("GET", "/v2/hooks/by-token?other=1&token=a+b")
    assert answer.value["hookId"] == "added"


@pytest.mark.parametrize("query", ["", "?token=", "?other=tok"])
async def test_a_look_up_needs_a_token(api: Api, query: str) -> None:
    answer = await api.call("GET", f"/v2/hooks/by-token{query}")
    assert (answer.status, answer.code) == (400, "invalid-request")


async def test_a_hook_that_is_not_there(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token="tok")
    await api.post("hook_disposed", "h")
    for path in ("/v2/hooks/h", "/v2/hooks/by-token?token=tok"):
        answer = await api.call("GET", path)
        assert (answer.status, answer.code) == (404, "hook-not-found")
    assert await pages(api, "/v2/hooks?", "hookId") == [[]]


async def test_a_retained_hook_is_there_until_its_retention_is_over(api: Api, clock: FakeClock) -> None:
    until = clock.wall() + timedelta(hours=1)
    for run_id, name in ((RUN, "ended"), (OTHER, "open")):
        await api.running_run(run_id)
        await api.post("hook_created", name, run=run_id, token=name, tokenRetentionUntil=until)
    await api.post("hook_created", "bare", run=OTHER, token="bare")
    await api.post("run_completed", output=b"devlout")
    assert await pages(api, "/v2/hooks?", "hookId") == [["ended", "open", "bare"]]
    clock.advance(3601)
    assert await pages(api, "/v2/hooks?", "hookId") == [["open", "bare"]]
    assert await pages(api, "/v2/hooks?limit=1", "hookId") == [[], ["open"], ["bare"]]
    for path in ("/v2/hooks/ended", "/v2/hooks/by-token?token=ended"):
        assert (await api.call("GET", path)).status == 404
    for path in ("/v2/hooks/open", "/v2/hooks/by-token?token=open"):
        assert (await api.call("GET", path)).value["hookId"] == "open"


async def test_hooks_are_listed_oldest_first(api: Api) -> None:
    await api.running_run()
    await api.running_run(OTHER)
    names = [f"h{number:02}" for number in range(22)]
    for name in names:
        await api.post("hook_created", name, token=name, metadata=b"devlm")
    await api.post("hook_created", "h00", run=OTHER, token="other")
    assert await pages(api, f"/v2/hooks?runId={RUN}", "hookId") == [names[:20], names[20:]]
    assert await pages(api, f"/v2/hooks?runId={OTHER}&sortOrder=desc", "hookId") == [["h00"]]
    listed = (await api.call("GET", "/v2/hooks?limit=100&remoteRefBehavior=lazy")).value["data"]
    assert len(listed) == 23
    assert all("metadata" not in hook and "resumeCapabilities" not in hook for hook in listed)
    # An id that two runs use names the newer hook.
    assert (await api.call("GET", "/v2/hooks/h00")).value["runId"] == OTHER
