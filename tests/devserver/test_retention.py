"""Runs that keep none of their user's data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from eventclient.devserver.retention import is_expired, retire
from tests.devserver.api import AT, FRAMES, RUN, Answer, Api
from tests.devserver.saved import run as saved_run
from tests.support.fake_clock import FakeClock

ZERO: dict[str, Any] = {"attributes": {"$retention": "0"}, "allowReservedAttributes": True}
SECRET = b"devlsecret"


async def busy_run(api: Api, **data: Any) -> None:
    """A run with a payload everywhere that payloads can be."""
    await api.pending_run(**{"input": SECRET, **data})
    await api.post("run_started")
    for name in ("done", "failed", "late", "waiting"):
        await api.post("step_created", name, stepName="work", input=SECRET)
        await api.post("step_started", name)
    await api.post("step_completed", "done", result=SECRET)
    await api.post("step_failed", "failed", error=SECRET)
    await api.post("step_retrying", "waiting", error=SECRET)
    await api.post("hook_created", "h", token="tok", metadata=SECRET)
    await api.post("hook_received", "h", payload=SECRET)


END: dict[str, Callable[[Api], Awaitable[Answer]]] = {
    "completed": lambda api: api.post("run_completed", output=SECRET),
    "failed": lambda api: api.post("run_failed", error=SECRET, errorCode="USER_ERROR"),
    "cancelled": lambda api: api.post("run_cancelled", cancelReason="enough"),
}


async def everything(api: Api) -> bytes:
    """All that can be read of the run, in one piece."""
    paths = ("v4/runs/{}/events?returnAll=true", "v3/runs/{}/events", "v2/runs/{}", "v2/runs/{}/steps")
    answers = [await api.request("GET", f"/api/{path.format(RUN)}") for path in paths]
    answers.append(await api.request("GET", "/api/v2/hooks"))
    assert [answer.status for answer in answers] == [200] * 5
    return b"".join(answer.body for answer in answers)


@pytest.mark.parametrize("status", END)
async def test_the_payloads_go_when_the_run_ends(api: Api, clock: FakeClock, status: str) -> None:
    await busy_run(api, **ZERO)
    assert SECRET in await everything(api)
    before = await api.log()
    ended = (await END[status](api)).value["run"]
    assert (ended["status"], ended["expiredAt"]) == (status, clock.wall())
    assert {"input", "output", "error"}.isdisjoint(ended)
    assert SECRET not in await everything(api)
    # What is left says what happened.
    assert await api.log() == [*before, (f"run_{status}", None)]
    run = (await api.call("GET", f"/v2/runs/{RUN}")).value
    assert (run["status"], run["expiredAt"]) == (status, clock.wall())
    assert run.get("errorCode") == ("USER_ERROR" if status == "failed" else None)
    step = (await api.call("GET", f"/v2/runs/{RUN}/steps/done")).value
    assert (step["status"], step["stepName"]) == ("completed", "work")
    rows = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events
    assert rows[2]["eventData"] == {"stepName": "work"}
    assert all(row["body"] == b"" for row in rows)
    flat = (await api.call("GET", f"/v3/runs/{RUN}/events")).value["data"]
    assert flat[2]["eventData"] == {"stepName": "work", "input": b""}


async def test_what_comes_after_the_end_goes_too(api: Api) -> None:
    await busy_run(api, **ZERO)
    await END["cancelled"](api)
    late = await api.post("step_completed", "late", result=SECRET)
    assert late.status == 200
    assert SECRET not in await everything(api)
    assert (await api.call("GET", f"/v2/runs/{RUN}/steps/late")).value["status"] == "completed"


async def test_an_end_in_a_batch_takes_the_payloads_of_the_batch_along(api: Api) -> None:
    await busy_run(api, **ZERO)
    completed = {"eventType": "step_completed", "correlationId": "late", "specVersion": 7}
    ended = {"eventType": "run_completed", "specVersion": 7, "eventData": {"output": SECRET}}
    answer = await api.batch({**completed, "eventData": {"result": SECRET}}, ended)
    assert answer.statuses == [200, 200]
    assert SECRET not in await everything(api)


async def test_the_attribute_may_be_set_while_the_run_goes_on(api: Api) -> None:
    await busy_run(api)
    changes = [{"key": "$retention", "value": "0"}]
    writer = {"type": "workflow"}
    await api.post("attr_set", "a", changes=changes, writer=writer, allowReservedAttributes=True)
    assert SECRET in await everything(api)
    await END["completed"](api)
    assert SECRET not in await everything(api)


@pytest.mark.parametrize("value", [None, "default", "1", "00", " 0", "-0", "0s", "never"])
async def test_nothing_goes_for_any_other_value(
    api: Api, value: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    attributes = {} if value is None else {"$retention": value}
    await busy_run(api, attributes=attributes, allowReservedAttributes=True)
    before = (await everything(api)).count(SECRET)
    ended = (await END["completed"](api)).value["run"]
    assert "expiredAt" not in ended
    # The output stands in both lists and in the run; the hook is gone, as after the end of any run.
    assert (await everything(api)).count(SECRET) == before + 3 - 1
    warned = "asks for a retention that is unknown" in caplog.text
    assert warned is (value not in (None, "default"))


async def test_an_old_run_that_is_cancelled_loses_them_too(api: Api) -> None:
    data = {"deploymentId": "dpl", "workflowName": "flow", "input": ["secret"], **ZERO}
    run_id = (await api.call("POST", "/v1/runs/create", data)).value["runId"]
    event = {"eventType": "hook_received", "correlationId": "h", "eventData": {"payload": SECRET}}
    await api.call("POST", f"/v1/runs/{run_id}/events", event)
    run = (await api.call("PUT", f"/v1/runs/{run_id}/cancel")).value
    assert "input" not in run
    assert "expiredAt" in run
    (row,) = (await api.get(f"/runs/{run_id}/events?returnAll=true")).events
    assert row["body"] == b""


async def test_a_run_that_was_purged_can_still_be_answered_with_its_log(api: Api) -> None:
    await busy_run(api, **ZERO)
    pair = {"resumeId": "r", "resumePayloadDigest": "d"}
    event = {"eventType": "hook_received", "correlationId": "h", "eventData": {"payload": SECRET}, **pair}
    first = (await api.call("POST", f"/v3/runs/{RUN}/events", event)).value["event"]
    await END["completed"](api)
    again = (
        await api.call("POST", f"/v3/runs/{RUN}/events", {**event, "remoteRefBehavior": "resolve"})
    ).value
    assert again["event"] == {**first, "eventData": {"payload": b""}}
    assert (await api.post("run_started", headers=FRAMES)).status == 410


def test_a_run_expires_once(clock: FakeClock) -> None:
    run = saved_run(status="completed", completedAt=AT, attributes={"$retention": "0"}, output=b"o")
    assert not is_expired(run)
    retired = retire(run, AT)
    assert is_expired(retired)
    assert (retired.input, retired.output, retired.error, retired.expired_at) == (None, None, None, AT)
    kept = saved_run(status="completed", completedAt=AT, output=b"o")
    assert retire(kept, AT) is kept


async def test_a_hook_that_outlives_the_run_keeps_its_token_alone(api: Api, clock: FakeClock) -> None:
    await busy_run(api, **ZERO)
    until = clock.wall() + timedelta(hours=1)
    await api.post("hook_created", "kept", token="kept", metadata=SECRET, tokenRetentionUntil=until)
    await END["completed"](api)
    hook = (await api.call("GET", "/v2/hooks/kept")).value
    assert hook["token"] == "kept"
    assert "metadata" not in hook


@pytest.mark.parametrize("name", ["old", "new"])
@pytest.mark.parametrize("headers", [{}, {"X-Stream-Done": "true"}], ids=["chunk", "last chunk"])
async def test_streams_take_nothing_once_the_run_has_expired(
    api: Api, clock: FakeClock, name: str, headers: dict[str, str]
) -> None:
    await busy_run(api, **ZERO)
    path = f"/api/v2/runs/{RUN}/stream"
    assert (await api.request("PUT", f"{path}/old", data=SECRET)).status == 204
    await END["completed"](api)
    answer = await api.request("PUT", f"{path}/{name}", data=SECRET, headers=headers)
    assert answer.status == 410
    assert answer.json["code"] == "stream-expired"
    assert answer.json["details"] == {"runId": RUN, "streamId": name, "expiredAt": clock.wall().isoformat()}
    names = await api.request("GET", f"/api/v2/runs/{RUN}/streams")
    assert names.json == ["old"]


async def test_streams_go_on_after_the_end_of_a_run_that_keeps_its_data(api: Api) -> None:
    await busy_run(api)
    await END["completed"](api)
    written = await api.request("PUT", f"/api/v2/runs/{RUN}/stream/new", data=b"chunk")
    read = await api.request("GET", f"/api/v2/runs/{RUN}/streams/new/chunks")
    assert written.status == 204
    assert b"chunk" in read.body
