"""The batch route: pairs, conflicts, refusals, atomicity, repeats, concurrent writers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eventclient.wire.params import WriteParams
from tests.devserver.api import AT, RUN, Api, event, frame, raw_frame

LATER = AT + timedelta(minutes=1)
PATH = f"/runs/{RUN}/events/batch"


def create(c: str, **fields: Any) -> dict[str, Any]:
    return event("step_created", c, stepName="work", input=b"devl" + c.encode(), **fields)


def start(c: str, **fields: Any) -> dict[str, Any]:
    return event("step_started", c, stepName="work", **fields)


def slots(results: list[dict[str, Any]]) -> list[int | None]:
    return [
        int(result["event"]["eventId"].removeprefix("evnt_")) if result["status"] == 200 else None
        for result in results
    ]


async def test_events_of_all_batchable_types_land_in_order(api: Api) -> None:
    await api.running_run()
    await api.all_taken(
        [
            *(("step_created", c, {"stepName": "work"}) for c in "abc"),
            ("wait_created", "v", {"resumeAt": AT}),
        ]
    )
    answer = await api.batch(
        create("d", at=LATER),
        event("step_completed", "a", result=b"devlr"),
        event("step_failed", "b", error=b"devle"),
        event("step_retrying", "c", error=b"devle"),
        event("wait_created", "w", resumeAt=LATER),
        event("wait_completed", "v"),
        event("run_completed", output=b"devlo"),
    )
    assert answer.statuses == [200] * 7
    assert slots(answer.results) == list(range(7, 14))
    assert [set(result) - {"status", "event"} for result in answer.results] == [
        *([{"step"}] * 4),
        *([{"wait"}] * 2),
        {"run", "maxEvents"},
    ]
    # Lazy: what was posted is not sent back, and the map it stood in stays.
    assert answer.results[0]["event"]["eventData"] == {"stepName": "work"}
    assert answer.results[0]["event"]["createdAt"] == answer.results[0]["step"]["createdAt"] == LATER
    assert answer.results[1]["event"]["eventData"] == {}
    assert "output" not in answer.results[1]["step"]
    rows = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events[6:]
    bodies = [row["body"] for row in rows]
    assert bodies == [b"devld", b"devlr", b"devle", b"devle", b"", b"", b"devlo"]


async def test_a_batch_sends_payloads_back_to_those_who_ask(api: Api) -> None:
    await api.running_run()
    body = b"".join(raw_frame(b"devl", **_meta(c), remoteRefBehavior="resolve") for c in "ab")
    results = (await api.send(PATH, body)).results
    assert [result["event"]["eventData"]["input"] for result in results] == [b"devl", b"devl"]
    assert [result["step"]["input"] for result in results] == [b"devl", b"devl"]


def _meta(c: str) -> dict[str, Any]:
    return {"eventType": "step_created", "specVersion": 7, "correlationId": c, "stepName": "work"}


async def test_a_pair_makes_a_step_that_runs(api: Api) -> None:
    await api.running_run()
    answer = await api.batch(create("a"), start("a", at=LATER, ownerMessageId="msg"), create("b"), start("c"))
    assert answer.statuses == [200, 200, 200, 404]
    first, second = answer.results[:2]
    assert first["step"] == second["step"]
    assert second["step"]["status"] == "running"
    assert second["step"]["attempt"] == 1
    assert second["step"]["startedAt"] == LATER
    assert second["event"]["eventData"] == {"stepName": "work", "ownerMessageId": "msg"}
    assert answer.results[3]["error"] == "step-not-found"
    assert slots(answer.results) == [3, 4, 5, None]


async def test_a_pair_is_taken_or_refused_as_one(api: Api) -> None:
    await api.running_run()
    await api.post("step_created", "a", stepName="work")
    answer = await api.batch(create("a"), start("a"), create("b"), start("b"))
    assert answer.statuses == [409, 409, 200, 200]
    assert slots(answer.results) == [None, None, 4, 5]
    assert answer.results[1]["error"] == "conflict"
    assert isinstance(answer.results[1]["message"], str)
    assert (await api.post("step_started", "a")).value["step"]["attempt"] == 1
    await api.post("run_completed")
    assert (await api.batch(create("c"), start("c"))).statuses == [409, 409]


async def test_a_pair_with_one_malformed_half_is_refused_as_one(api: Api) -> None:
    await api.running_run()
    started: dict[str, Any] = {"eventType": "step_started", "specVersion": 7, "correlationId": "a"}
    body = raw_frame(b"devl", **_meta("a")) + raw_frame(**started, stepName=5)
    answer = await api.send(PATH, body)
    assert answer.statuses == [400, 400]
    nameless = _meta("a")
    del nameless["stepName"]
    answer = await api.send(PATH, raw_frame(b"devl", **nameless) + raw_frame(**started))
    assert answer.statuses == [400, 400]
    assert len(await api.log()) == 2


async def test_refused_events_use_up_nothing(api: Api) -> None:
    await api.running_run()
    await api.batch(create("a"), create("c"), create("e"))
    answer = await api.batch(*(create(c) for c in "abcdef"))
    assert answer.statuses == [409, 200, 409, 200, 409, 200]
    assert slots(answer.results) == [None, 6, None, 7, None, 8]
    assert [c for _, c in await api.log()][2:] == ["a", "c", "e", "b", "d", "f"]


async def test_a_committed_batch_of_creates_and_ends_repeats_to_conflicts(api: Api) -> None:
    await api.running_run()
    await api.batch(create("a"), event("wait_created", "w", resumeAt=AT))
    events = [create("b"), event("step_completed", "a"), event("wait_completed", "w"), start("b")]
    first = [events[0], events[3], *events[1:3]]
    assert (await api.batch(*first)).statuses == [200] * 4
    count = len(await api.log())
    assert (await api.batch(*first)).statuses == [409] * 4
    assert len(await api.log()) == count


async def test_events_see_what_those_before_them_did(api: Api) -> None:
    await api.running_run()
    await api.post("wait_created", "w", resumeAt=AT)
    answer = await api.batch(event("run_failed", error=b"devl"), create("a"), event("wait_completed", "w"))
    assert answer.statuses == [200, 409, 404]
    assert answer.results[0]["run"]["status"] == "failed"


async def test_a_malformed_event_has_its_own_result(api: Api) -> None:
    await api.running_run()
    bad: dict[str, Any] = {"eventType": "wait_created", "specVersion": 7, "correlationId": "w"}
    body = raw_frame(**bad) + frame(create("a"), batch=True)
    answer = await api.send(PATH, body)
    assert answer.statuses == [400, 200]
    assert answer.results[0]["error"] == "invalid-event"
    assert slots(answer.results) == [None, 3]


UNBATCHABLE = [
    event("run_created", deploymentId="d", workflowName="w"),
    event("run_started"),
    event("run_cancelled"),
    event("hook_created", "h", token="t"),
    event("hook_received", "h"),
    event("hook_disposed", "h"),
    event("attr_set", "at", changes=[], writer={"type": "workflow"}),
    event("step_started", "x", stepName="work", input=b"devl"),
]


@pytest.mark.parametrize("unbatchable", UNBATCHABLE, ids=lambda mapping: str(mapping["eventType"]))
async def test_an_event_that_is_not_for_batches_has_the_whole_batch_refused(
    api: Api, unbatchable: dict[str, Any]
) -> None:
    await api.running_run()
    answer = await api.batch(create("a"), unbatchable)
    assert (answer.status, answer.code) == (400, "batch-not-expressible")
    assert len(await api.log()) == 2


async def test_a_lazy_delivery_is_not_for_batches_either(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token="t")
    params = WriteParams(resume_id="r", resume_payload_digest="d")
    answer = await api.send(PATH, frame(event("hook_received", "h"), params))
    assert (answer.status, answer.code) == (400, "batch-not-expressible")


@pytest.mark.parametrize(
    "events",
    [
        [create("a"), create("a")],
        [create("a"), start("a"), start("a")],
        [create("a"), start("a"), event("step_completed", "a")],
        [create("a"), create("b"), start("a")],
        [start("a"), create("a")],
        [event("wait_created", "w", resumeAt=AT), event("wait_completed", "w")],
        [event("run_completed"), event("run_failed")],
        [create("a"), create("a"), start("a")],
    ],
)
async def test_two_events_on_one_entity_have_the_whole_batch_refused(
    api: Api, events: list[dict[str, Any]]
) -> None:
    await api.running_run()
    answer = await api.batch(*events)
    assert (answer.status, answer.code) == (400, "batch-not-expressible")
    assert len(await api.log()) == 2


@pytest.mark.parametrize("event_type", ["noop", "hook_conflict", "step_exploded"])
async def test_unknown_types_have_the_whole_batch_refused(api: Api, event_type: str) -> None:
    await api.running_run()
    body = frame(create("a"), batch=True) + raw_frame(eventType=event_type, specVersion=7, correlationId="b")
    answer = await api.send(PATH, body)
    assert (answer.status, answer.code) == (400, "batch-not-expressible")


async def test_a_batch_needs_a_run_of_spec_version_6(api: Api) -> None:
    await api.running_run(spec=5)
    answer = await api.batch(create("a"), create("b"))
    assert (answer.status, answer.code) == (400, "batch-requires-slot-identity")
    assert len(await api.log()) == 2
    await api.running_run("wrun_six", spec=6)
    assert (await api.batch(create("a"), run="wrun_six")).statuses == [200]


async def test_a_batch_needs_its_run_to_exist(api: Api) -> None:
    answer = await api.batch(create("a"), create("b"))
    assert (answer.status, answer.code) == (404, "run-not-found")


async def test_a_batch_has_at_most_50_events_and_4_mib(api: Api) -> None:
    await api.running_run()
    answer = await api.batch(*(create(f"s{number}") for number in range(51)))
    assert (answer.status, answer.code) == (400, "batch-too-large")
    assert (await api.batch(*(create(f"s{number}") for number in range(50)))).statuses == [200] * 50
    big = raw_frame(b"x" * (4 * 1024 * 1024), **_meta("big"))
    answer = await api.send(PATH, big)
    assert (answer.status, answer.code) == (400, "batch-too-large")
    assert len(await api.log()) == 52


async def test_concurrent_writers_leave_a_dense_log_in_whole_batches(api: Api) -> None:
    await api.running_run()

    async def write(writer: int) -> None:
        for number in range(5):
            answer = await api.batch(*(create(f"{writer}-{number}-{index}") for index in range(4)))
            assert answer.statuses == [200] * 4
            first = slots(answer.results)[0] or 0
            assert slots(answer.results) == list(range(first, first + 4))

    await asyncio.gather(*(write(writer) for writer in range(20)))
    # The log itself is checked for gaps.
    assert len(await api.log()) == 2 + 20 * 5 * 4


async def test_of_many_who_race_for_a_step_one_wins(api: Api) -> None:
    await api.running_run()
    answers = await asyncio.gather(*(api.batch(create("a"), start("a"), create("b")) for _ in range(20)))
    assert sorted(answer.statuses for answer in answers) == [[200, 200, 200]] + [[409, 409, 409]] * 19
    assert len(await api.log()) == 5
