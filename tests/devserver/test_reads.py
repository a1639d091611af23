"""LIST, GET and the listing by correlation id."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.devserver.api import AT, RUN, Answer, Api, event

LIST = f"/runs/{RUN}/events"


def event_id(slot: int) -> str:
    return f"evnt_{slot:026d}"


def slots(answer: Answer) -> list[int]:
    return [int(row["eventId"].removeprefix("evnt_")) for row in answer.events]


async def filled_run(api: Api) -> None:
    """A run with seven events: created, started, four steps, one step completed."""
    await api.running_run()
    await api.batch(*(event("step_created", c, stepName="s", input=b"devl" + c.encode()) for c in "abcd"))
    await api.post("step_completed", "b", result=b"devlr")


async def test_a_log_is_listed_ascending_with_a_resume_point(api: Api) -> None:
    await filled_run(api)
    for query in ("?returnAll=true", "", "?sortOrder=asc&limit=7", "?limit=5000&remoteRefBehavior=resolve"):
        answer = await api.get(LIST + query)
        assert slots(answer) == [1, 2, 3, 4, 5, 6, 7]
        assert answer.end == {"_end": 1, "next": f"eid:{event_id(7)}", "hasMore": False}
    row = answer.events[2]
    assert row == {
        "eventType": "step_created",
        "runId": RUN,
        "eventId": event_id(3),
        "createdAt": AT,
        "correlationId": "a",
        "specVersion": 7,
        "eventData": {"stepName": "s"},
        "body": b"devla",
    }


async def test_pages_follow_one_another(api: Api) -> None:
    await filled_run(api)
    seen: list[int] = []
    query = "?limit=3"
    while True:
        answer = await api.get(f"{LIST}{query}")
        seen += slots(answer)
        if not answer.end["hasMore"]:
            break
        query = f"?cursor={quote(answer.end['next'])}&limit=3"
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    behind_the_end = await api.get(f"{LIST}?returnAll=true&cursor={quote(answer.end['next'])}")
    assert behind_the_end.events == []
    assert behind_the_end.end == {"_end": 1, "next": f"eid:{event_id(7)}", "hasMore": False}


async def test_descending_pages_follow_one_another(api: Api) -> None:
    await filled_run(api)
    first = await api.get(f"{LIST}?limit=4&sortOrder=desc")
    assert slots(first) == [7, 6, 5, 4]
    assert first.end["hasMore"] is True
    second = await api.get(f"{LIST}?limit=4&sortOrder=desc&cursor={quote(first.end['next'])}")
    assert slots(second) == [3, 2, 1]
    assert second.end == {"_end": 1, "next": f"eid:{event_id(1)}", "hasMore": False}
    third = await api.get(f"{LIST}?sortOrder=desc&cursor=eid%3A{event_id(1)}")
    assert slots(third) == []


async def test_a_cursor_with_return_all_gives_the_rest(api: Api) -> None:
    await filled_run(api)
    answer = await api.get(f"{LIST}?returnAll=true&cursor=eid:{event_id(4)}&remoteRefBehavior=resolve")
    assert slots(answer) == [5, 6, 7]


async def test_a_lazy_read_has_no_bodies_and_keeps_event_data(api: Api) -> None:
    await filled_run(api)
    answer = await api.get(f"{LIST}?returnAll=true&remoteRefBehavior=lazy")
    assert {row["body"] for row in answer.events} == {b""}
    assert answer.events[0]["eventData"] == {"deploymentId": "dpl", "workflowName": "flow"}
    assert answer.events[6]["eventData"] == {}


async def test_a_page_has_at_most_1000_events(api: Api) -> None:
    await api.running_run()
    for number in range(21):
        events = (event("wait_created", f"w{number}-{index}", resumeAt=AT) for index in range(50))
        assert (await api.batch(*events)).statuses == [200] * 50
    for query in ("", "?limit=1001"):
        answer = await api.get(LIST + query)
        assert len(answer.events) == 1000
        assert answer.end["hasMore"] is True
    assert len((await api.get(f"{LIST}?returnAll=true")).events) == 1052


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cursor=nonsense", "invalid-cursor"),
        ("cursor=", "invalid-cursor"),
        ("cursor=eid:evnt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "invalid-cursor"),
        ("limit=0", "invalid-request"),
        ("limit=-1", "invalid-request"),
        ("limit=many", "invalid-request"),
        ("limit=99999999999999999999", "invalid-request"),
        ("limit=%C2%B2", "invalid-request"),
        ("sortOrder=up", "invalid-request"),
    ],
)
async def test_what_a_list_cannot_understand_is_refused(api: Api, query: str, code: str) -> None:
    await api.running_run()
    for path in (f"{LIST}?{query}", f"/events?correlationId=a&runId={RUN}&{query}"):
        answer = await api.get(path)
        assert (answer.status, answer.code) == (400, code)


async def test_the_log_of_a_missing_run_is_not_found(api: Api) -> None:
    for path in (LIST, f"/events?correlationId=a&runId={RUN}", f"{LIST}/{event_id(1)}"):
        answer = await api.get(path)
        assert (answer.status, answer.code) == (404, "run-not-found")


async def test_one_event_is_one_frame(api: Api) -> None:
    await filled_run(api)
    (row,) = (await api.get(f"{LIST}/{event_id(7)}")).events
    assert (row["eventType"], row["eventData"], row["body"]) == ("step_completed", {}, b"devlr")
    (lazy,) = (await api.get(f"{LIST}/{event_id(7)}?remoteRefBehavior=lazy")).events
    assert {**row, "body": b""} == lazy
    for missing in (event_id(8), event_id(9999999999999999), "evnt_1", "nonsense"):
        answer = await api.get(f"{LIST}/{missing}")
        assert (answer.status, answer.code) == (404, "event-not-found")


async def test_events_are_listed_by_correlation_id(api: Api) -> None:
    await filled_run(api)
    path = f"/events?correlationId=b&runId={RUN}&remoteRefBehavior=resolve"
    answer = await api.get(path)
    assert [(row["eventType"], row["body"]) for row in answer.events] == [
        ("step_created", b"devlb"),
        ("step_completed", b"devlr"),
    ]
    assert answer.end == {"_end": 1, "next": f"eid:{event_id(7)}", "hasMore": False}
    assert slots(await api.get(f"{path}&limit=1&sortOrder=desc")) == [7]
    rest = await api.get(f"{path}&cursor=eid:{event_id(4)}")
    assert slots(rest) == [7]
    nobody = await api.get(f"/events?correlationId=nobody&runId={RUN}")
    assert nobody.events == []
    assert nobody.end == {"_end": 1, "hasMore": False}


@pytest.mark.parametrize("query", ["", "correlationId=a", f"runId={RUN}", f"correlationId=&runId={RUN}"])
async def test_the_listing_by_correlation_id_needs_both_ids(api: Api, query: str) -> None:
    answer = await api.get(f"/events?{query}")
    assert (answer.status, answer.code) == (400, "invalid-request")


async def test_run_ids_are_percent_decoded(api: Api) -> None:
    run = "wrun_a/b c%?é"
    await api.running_run(run)
    rows: list[dict[str, Any]] = (await api.get(f"/runs/{quote(run, safe='')}/events")).events
    assert {row["runId"] for row in rows} == {run}
