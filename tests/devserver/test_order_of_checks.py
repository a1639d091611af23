"""What an event is checked for first, and what is taken for granted where it says nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.devserver.api import AT, RUN, Answer, Api, raw_frame
from tests.support.fake_clock import FakeClock

WORKFLOW: dict[str, Any] = {"writer": {"type": "workflow"}}
CREATED = {"deploymentId": "d", "workflowName": "w"}


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


async def test_a_creation_that_is_wrong_is_no_conflict(api: Api) -> None:
    await api.pending_run()
    assert refused(await api.pending_run(attributes={"": "x"})) == (400, "invalid-event")
    assert refused(await api.pending_run(attributes={"a": "x"})) == (409, "conflict")


async def test_a_retention_that_is_too_long_is_refused_in_any_state(api: Api, clock: FakeClock) -> None:
    until = clock.wall() + timedelta(days=30, seconds=1)
    too_long: dict[str, Any] = {"token": "t", "tokenRetentionUntil": until}
    assert refused(await api.post("hook_created", "h", **too_long)) == (400, "invalid-event")
    await api.running_run()
    await api.post("run_completed", output=b"o")
    assert refused(await api.post("hook_created", "h", **too_long)) == (400, "invalid-event")
    just = {**too_long, "tokenRetentionUntil": until - timedelta(seconds=1)}
    assert refused(await api.post("hook_created", "h", **just)) == (409, "conflict")


@pytest.mark.parametrize("correlation_id", [".", "..", "a\0b", "a\nb", "s" * 257])
async def test_a_correlation_id_names_something(api: Api, correlation_id: str) -> None:
    await api.running_run()
    created = await api.post("step_created", correlation_id, stepName="work", input=b"i")
    assert refused(created) == (400, "invalid-event")
    assert len(await api.log()) == 2


async def test_an_event_without_a_version_is_of_the_latest(api: Api) -> None:
    body = raw_frame(b"devl", eventType="run_created", **CREATED)
    run = (await api.send(f"/runs/{RUN}/events", body)).value["run"]
    assert run["specVersion"] == 7
    answer = await api.batch(
        {"eventType": "wait_created", "correlationId": "w", "eventData": {"resumeAt": AT}, "specVersion": 7}
    )
    assert answer.statuses == [200]


async def test_every_answer_with_a_run_says_how_long_its_log_may_be(api: Api) -> None:
    await api.running_run()
    changes = [{"key": "a", "value": "1"}]
    for _ in range(2):
        value = (await api.post("attr_set", "attr", changes=changes, **WORKFLOW)).value
        assert (value["maxEvents"], value["run"]["attributes"]) == (25_000, {"a": "1"})
    assert len(await api.log()) == 3


@pytest.mark.parametrize(
    ("key", "status"),
    [("a" * 256, 200), ("a" * 257, 400), ("\U0001d49c" * 128, 200), ("\U0001d49c" * 129, 400)],
)
async def test_a_key_is_measured_as_javascript_does(api: Api, key: str, status: int) -> None:
    await api.running_run()
    changes = [{"key": key, "value": "1"}]
    assert (await api.post("attr_set", "attr", changes=changes, **WORKFLOW)).status == status
