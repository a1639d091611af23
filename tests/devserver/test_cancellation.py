"""Many runs cancelled at once."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.state import Wanted
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import Api
from tests.support.fake_clock import FakeClock

NONE_SUMMARY = {
    "requested": 0,
    "cancelled": 0,
    "alreadyCancelled": 0,
    "notCancellable": 0,
    "notFound": 0,
    "failed": 0,
}


async def cancel(api: Api, *run_ids: str, **fields: Any) -> dict[str, Any]:
    return (await api.call("POST", "/v4/runs/cancel", {"runIds": list(run_ids), **fields})).value


async def test_every_run_gets_its_result_in_the_order_asked_for(api: Api) -> None:
    for run_id in ("open", "done", "failed", "gone", "pending"):
        await api.pending_run(run_id)
    await api.post("run_started", run="open")
    await api.post("run_completed", run="done", output=b"devlo")
    await api.post("run_failed", run="failed", error=b"devle")
    await api.post("run_cancelled", run="gone")
    run_ids = ("failed", "open", "nowhere", "gone", "done", "pending", "no\nid")
    answer = await cancel(api, *run_ids, cancelReason="no longer needed")
    assert answer["results"] == [
        {"runId": "failed", "outcome": "not_cancellable", "status": "failed"},
        {"runId": "open", "outcome": "cancelled"},
        {"runId": "nowhere", "outcome": "not_found"},
        {"runId": "gone", "outcome": "already_cancelled"},
        {"runId": "done", "outcome": "not_cancellable", "status": "completed"},
        {"runId": "pending", "outcome": "cancelled"},
        {"runId": "no\nid", "outcome": "not_found"},
    ]
    assert answer["summary"] == {
        "requested": 7,
        "cancelled": 2,
        "alreadyCancelled": 1,
        "notCancellable": 2,
        "notFound": 2,
        "failed": 0,
    }
    assert (await api.log("open"))[-1] == ("run_cancelled", None)
    last = (await api.get("/runs/open/events?returnAll=true")).events[-1]
    assert last["eventData"] == {"cancelReason": "no longer needed"}
    assert len(await api.log("gone")) == 2


async def test_a_reason_is_optional(api: Api) -> None:
    await api.pending_run("open")
    answer = await cancel(api, "open")
    assert answer["summary"] == {**NONE_SUMMARY, "requested": 1, "cancelled": 1}
    assert "eventData" not in (await api.get("/runs/open/events?returnAll=true")).events[-1]


async def test_five_hundred_runs_go_at_once(api: Api) -> None:
    await api.pending_run("open")
    answer = await cancel(api, "open", *(f"run-{number}" for number in range(499)))
    assert answer["summary"] == {**NONE_SUMMARY, "requested": 500, "cancelled": 1, "notFound": 499}
    assert len({result["runId"] for result in answer["results"]}) == 500


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"runIds": "open"},
        {"runIds": []},
        {"runIds": ["open", 1]},
        {"runIds": ["open", "open"]},
        {"runIds": [f"run-{number}" for number in range(501)]},
        {"runIds": ["open"], "cancelReason": 1},
        {"runIds": ["open"], "cancelReason": "x" * 513},
    ],
)
async def test_a_request_that_is_wrong_cancels_nothing(api: Api, body: dict[str, Any]) -> None:
    await api.pending_run("open")
    answer = await api.call("POST", "/v4/runs/cancel", body)
    assert (answer.status, answer.code) == (400, "invalid-request")
    assert await api.log("open") == [("run_created", None)]


class Failing(SqliteStore):
    """A store whose disk is full for one run."""

    async def change(self, wanted: Wanted, decide: Any, **options: Any) -> Any:
        if wanted.run_id == "full":
            raise OSError("no space left on device")
        return await super().change(wanted, decide, **options)


async def test_a_run_that_cannot_be_cancelled_does_not_stop_the_others(
    session: aiohttp.ClientSession, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with DevServer(Failing(), clock=clock) as server:
        api = Api(session, server.url)
        await api.pending_run("open")
        answer = await cancel(api, "full", "open")
    assert answer["results"] == [
        {"runId": "full", "outcome": "failed", "code": "internal-error", "retryable": True},
        {"runId": "open", "outcome": "cancelled"},
    ]
    assert answer["summary"] == {**NONE_SUMMARY, "requested": 2, "cancelled": 1, "failed": 1}
    assert "run full could not be cancelled" in caplog.text
