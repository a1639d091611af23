"""The page and the data it asks for."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.devserver.account import MAX_NAME_CHARS, account_of
from eventclient.devserver.app import DevServer
from eventclient.devserver.journal import Journal
from eventclient.devserver.notices import Notices
from eventclient.devserver.page.document import read_document
from eventclient.devserver.page.news import LIST_PACE_S, LIST_PATIENCE_S, RunsNews
from eventclient.devserver.page.timeline import Json, Timeline
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import AT, RUN, Api, event
from tests.devserver.conftest import MakeStore
from tests.support.fake_clock import FakeClock

SECRET = "s3cret"


@web.middleware
async def throttle_on_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    if "Throttle" not in request.headers:
        return await handler(request)
    account_of(request).faults.append("throttle")
    return web.json_response({"code": "slow-down"}, status=429, headers={"Retry-After": "2"})


@pytest.fixture
async def server(make_store: MakeStore, clock: FakeClock) -> AsyncIterator[DevServer]:
    async with DevServer(make_store(), clock=clock, middlewares=[throttle_on_request]) as server:
        yield server


def steps(*names: str, **data: Any) -> list[dict[str, Any]]:
    return [event("step_created", name, **{"stepName": "work", **data}) for name in names]


async def data(api: Api, path: str) -> dict[str, Any]:
    answer = await api.request("GET", f"/__runs{path}")
    assert answer.status == 200, answer
    value: dict[str, Any] = answer.json
    return value


class Stream:
    """What is followed, one object at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> dict[str, Any] | None:
        """None when the stream has ended."""
        line = await asyncio.wait_for(self._response.content.readline(), 30)
        if not line:
            return None
        assert await self._response.content.readline() == b"\n"
        value: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
        return value


@asynccontextmanager
async def following(session: aiohttp.ClientSession, url: str) -> AsyncIterator[Stream]:
    async with session.get(url) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield Stream(response)


# -- the page ----------------------------------------------------------------------------------


async def test_the_page_may_do_what_is_in_it_and_nothing_else(api: Api) -> None:
    answer = await api.request("GET", "/")
    assert (answer.status, answer.content_type) == (200, "text/html")
    text = answer.body.decode()
    policy = dict(each.split(" ", 1) for each in answer.headers["Content-Security-Policy"].split("; "))
    for name in ("script", "style"):
        (content,) = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{name}-src"] == f"'sha256-{digest}'"
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_has_everything_in_it_and_puts_in_text_only() -> None:
    text = read_document().text
    assert set(re.findall(r"https?://[^'\"\s)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\s(src|on\w+|style)\s*=\s*[\"']", text)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage"):
        assert word not in text
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=\"(?!data:)", text)


async def test_what_the_page_asks_for_is_not_kept_by_browsers(api: Api) -> None:
    await api.running_run()
    for path in ("/__runs", f"/__runs/{RUN}"):
        answer = await api.request("GET", path)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


# -- the runs ----------------------------------------------------------------------------------


async def test_runs_are_listed_the_latest_first(api: Api) -> None:
    for number in range(5):
        await api.pending_run(f"run{number}", workflowName=f"flow{number}")
    await api.post("run_started", run="run1")
    await api.post("run_failed", run="run1", errorCode="BAD", error=b"devl")
    first = await data(api, "?limit=3")
    assert [run["id"] for run in first["runs"]] == ["run4", "run3", "run2"]
    second = await data(api, f"?limit=3&after={first['next']}")
    assert [(run["id"], run["status"], run["events"]) for run in second["runs"]] == [
        ("run1", "failed", 3),
        ("run0", "pending", 1),
    ]
    assert second["next"] is None
    assert second["runs"][0] == {
        "id": "run1",
        "workflow": "flow1",
        "status": "failed",
        "events": 3,
        "lastAt": "2026-01-01T12:00:00.000+00:00",
        "createdAt": "2026-01-01T12:00:00.000+00:00",
        "startedAt": "2026-01-01T12:00:00.000+00:00",
        "completedAt": "2026-01-01T12:00:00.000+00:00",
        "specVersion": 7,
        "errorCode": "BAD",
    }


async def test_there_may_be_no_runs(api: Api) -> None:
    assert await data(api, "") == {"runs": [], "next": None}


@pytest.mark.parametrize(
    "path",
    ["?limit=0", "?limit=-1", "?limit=x", "?after=1e3", f"/{RUN}?first=9999999999999999", "?limit=%C2%B2"],
)
async def test_numbers_are_checked(api: Api, path: str) -> None:
    await api.running_run()
    answer = await api.request("GET", f"/__runs{path}")
    assert (answer.status, answer.code) == (400, "invalid-request")


async def test_a_run_has_to_exist(api: Api) -> None:
    for path in ("/nowhere", "/nowhere/live"):
        answer = await api.request("GET", f"/__runs{path}")
        assert (answer.status, answer.code) == (404, "run-not-found")


# -- a timeline --------------------------------------------------------------------------------


async def test_a_timeline_has_the_events_by_slot(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token=SECRET)
    await api.post("wait_created", "w", resumeAt=AT)
    await api.batch(*steps("a", "b", input=b"devl" + SECRET.encode()))
    part = await data(api, f"/{RUN}")
    assert [(row["slot"], row["type"], row["correlationId"], row["detail"]) for row in part["events"]] == [
        (1, "run_created", None, "flow"),
        (2, "run_started", None, None),
        (3, "hook_created", "h", None),
        (4, "wait_created", "w", "2026-01-01T12:00:00.000+00:00"),
        (5, "step_created", "a", "work"),
        (6, "step_created", "b", "work"),
    ]
    assert {row["at"] for row in part["events"]} == {"2026-01-01T12:00:00.000+00:00"}
    assert part["run"]["events"] == part["position"]["slot"] == 6
    assert SECRET not in json.dumps(part)


async def test_events_of_one_request_are_told_together(api: Api) -> None:
    await api.running_run()
    await api.batch(*steps("a", "b"))
    await api.batch(*steps("a", "c"))
    part = await data(api, f"/{RUN}")
    slots = [[event["slot"] for event in request["events"]] for request in part["requests"]]
    assert slots == [[1], [2], [3, 4], [None, 5]]
    mixed = part["requests"][-1]
    assert mixed["marks"] == {"conflict": 1}
    assert mixed["events"][0] == {
        "type": "step_created",
        "correlationId": "a",
        "status": 409,
        "code": "conflict",
        "slot": None,
        "delivery": 1,
    }
    assert part["tally"] == {"requests": 4, "batches": 2, "conflict": 1}


async def test_what_went_wrong_stands_where_it_happened(api: Api) -> None:
    await api.running_run()
    await api.post("step_created", "a", stepName="work", headers={"Throttle": "1"})
    await api.batch(*steps("a", "b"))
    await api.post("step_created", "a", stepName="work")
    await api.batch(*steps("c"), *steps("c"))
    part = await data(api, f"/{RUN}")
    marked = [(each["place"], each["status"], each["marks"]) for each in part["requests"] if each["marks"]]
    assert marked == [
        (2, 429, {"throttled": 1, "fault": 1}),
        (4, 409, {"conflict": 1}),
        (4, 400, {"refused": 1}),
    ]
    throttled = part["requests"][2]
    assert (throttled["faults"], throttled["retryAfter"]) == (["throttle"], "2")
    assert throttled["code"] == "slow-down"
    assert part["places"] == [2, 4]


async def test_a_timeline_comes_in_parts(api: Api) -> None:
    await api.running_run()
    await api.batch(*steps("a", "b", "c", "d"))
    await api.post("step_created", "a", stepName="work")
    await api.batch(*steps("e", "f"))
    latest = await data(api, f"/{RUN}?limit=3")
    assert [row["slot"] for row in latest["events"]] == [6, 7, 8]
    # A batch that reaches into the part comes whole, and so does the conflict that stands in it.
    assert [[each["slot"] for each in request["events"]] for request in latest["requests"]] == [
        [3, 4, 5, 6],
        [None],
        [7, 8],
    ]
    first = await data(api, f"/{RUN}?limit=3&first=1")
    assert [row["slot"] for row in first["events"]] == [1, 2, 3]
    assert [len(request["events"]) for request in first["requests"]] == [1, 1, 4]
    assert first["position"]["slot"] == latest["position"]["slot"] == 8
    behind = await data(api, f"/{RUN}?first=100")
    assert (behind["events"], behind["position"]["slot"]) == ([], 8)


async def test_parts_are_bounded(api: Api) -> None:
    await api.running_run()
    for batch in range(11):
        await api.batch(*steps(*(f"s{batch}-{number}" for number in range(50))))
    assert len((await data(api, f"/{RUN}"))["events"]) == 200
    assert len((await data(api, f"/{RUN}?limit=100000"))["events"]) == 500


async def test_long_names_are_cut(api: Api) -> None:
    await api.pending_run(workflowName="w" * 1000)
    await api.post("run_started")
    await api.batch(*steps("c" * 1000), *steps("c", stepName="n" * 1000))
    part = await data(api, f"/{RUN}")
    assert part["events"][-1]["detail"] == "n" * MAX_NAME_CHARS
    assert part["requests"][-1]["events"][0]["correlationId"] == "c" * MAX_NAME_CHARS
    assert part["run"]["workflow"] == "w" * MAX_NAME_CHARS


async def test_a_server_that_starts_again_knows_the_events_and_not_their_requests(
    clock: FakeClock, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    async with DevServer(store, clock=clock) as server:
        api = Api(session, server.url)
        await api.running_run()
        await api.batch(*steps("a", "b"))
    async with DevServer(store, clock=clock, middlewares=[throttle_on_request]) as server:
        api = Api(session, server.url)
        assert (await data(api, f"/{RUN}"))["requests"] == []
        await api.post("step_created", "c", stepName="work", headers={"Throttle": "1"})
        await api.batch(*steps("c", "d"))
        part = await data(api, f"/{RUN}")
        assert [row["slot"] for row in part["events"]] == [1, 2, 3, 4, 5, 6]
        assert [(each["place"], each["status"]) for each in part["requests"]] == [(4, 429), (5, 200)]


# -- live --------------------------------------------------------------------------------------


async def test_what_is_new_is_told_and_nothing_else(
    api: Api, server: DevServer, session: aiohttp.ClientSession
) -> None:
    await api.running_run()
    position = (await data(api, f"/{RUN}"))["position"]
    url = f"{server.url}/__runs/{RUN}/live?after={position['slot']}&number={position['number']}"
    async with following(session, url) as stream:
        first = await stream.next()
        assert first is not None
        assert (first["events"], first["requests"], first["run"]["status"]) == ([], [], "running")
        await api.batch(*steps("a", "b"))
        await api.batch(*steps("a", "c"))
        await api.post("step_created", "a", stepName="work", headers={"Throttle": "1"})
        slots: list[int] = []
        requests: list[dict[str, Any]] = []
        while len(requests) < 3:
            news = await stream.next()
            assert news is not None
            slots += [row["slot"] for row in news["events"]]
            requests += news["requests"]
        assert slots == [3, 4, 5]
        assert [request["marks"] for request in requests] == [
            {},
            {"conflict": 1},
            {"throttled": 1, "fault": 1},
        ]
        assert [request["place"] for request in requests] == [3, 5, 5]


async def test_a_viewer_that_is_far_behind_catches_up(
    api: Api, server: DevServer, session: aiohttp.ClientSession
) -> None:
    await api.running_run()
    for batch in range(11):
        await api.batch(*steps(*(f"s{batch}-{number}" for number in range(50))))
    seen: list[int] = []
    async with following(session, f"{server.url}/__runs/{RUN}/live") as stream:
        while len(seen) < 552:
            news = await stream.next()
            assert news is not None
            assert len(news["events"]) <= 500
            seen += [row["slot"] for row in news["events"]]
    assert seen == list(range(1, 553))


async def test_a_run_that_another_server_writes_is_followed_too(
    clock: FakeClock, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    place = str(tmp_path / "shared.db")
    async with (
        DevServer(SqliteStore(place), clock=clock) as one,
        DevServer(SqliteStore(place), clock=clock) as other,
    ):
        await Api(session, one.url).running_run()
        async with following(session, f"{other.url}/__runs/{RUN}/live?after=2") as stream:
            assert await stream.next() is not None
            await Api(session, one.url).batch(*steps("a"))
            news = await stream.next()
            assert news is not None
            assert [row["slot"] for row in news["events"]] == [3]


async def test_the_list_of_runs_is_followed(
    api: Api, server: DevServer, session: aiohttp.ClientSession, clock: FakeClock
) -> None:
    await api.pending_run("one")
    await api.pending_run("two")
    async with following(session, f"{server.url}/__live") as stream:
        first = await stream.next()
        assert first is not None
        assert [run["id"] for run in first["runs"]] == ["two", "one"]
        await api.post("run_started", run="one")
        clock.advance(LIST_PACE_S)
        changed = await stream.next()
        assert changed is not None
        assert [(run["id"], run["status"], run["events"]) for run in changed["runs"]] == [
            ("one", "running", 2)
        ]
        await api.pending_run("three")
        clock.advance(LIST_PACE_S)
        new = await stream.next()
        assert new is not None
        assert [run["id"] for run in new["runs"]] == ["three"]


class Shifting(Timeline):
    """A list of runs that no two reads find alike."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(SqliteStore(), journal)
        self.reads = 0

    async def runs(self, *, after: int | None = None, limit: int = 0) -> Json:
        self.reads += 1
        return {"runs": [{"id": "run", "events": self.reads}], "next": None}


async def test_the_list_of_runs_is_read_seldom_however_often_it_changes(clock: FakeClock) -> None:
    journal = Journal(clock, Notices())
    timeline = Shifting(journal)
    news = RunsNews(timeline, journal, clock)
    assert await news.look() == {"runs": [{"id": "run", "events": 1}]}
    for _ in range(10):
        journal.number += 1
        assert await news.look() is None
    clock.advance(LIST_PACE_S)
    assert await news.look() == {"runs": [{"id": "run", "events": 2}]}
    # Of what another process changes nothing is heard.
    clock.advance(LIST_PACE_S)
    assert await news.look() is None
    clock.advance(LIST_PATIENCE_S - LIST_PACE_S)
    assert await news.look() == {"runs": [{"id": "run", "events": 3}]}
    assert timeline.reads == 3


async def test_a_run_of_another_server_comes_into_the_list(
    clock: FakeClock, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    place = str(tmp_path / "shared.db")
    async with (
        DevServer(SqliteStore(place), clock=clock) as one,
        DevServer(SqliteStore(place), clock=clock) as other,
    ):
        await Api(session, one.url).pending_run("one")
        async with following(session, f"{other.url}/__live") as stream:
            assert await stream.next() is not None
            await Api(session, one.url).pending_run("two")
            clock.advance(LIST_PATIENCE_S)
            news = await stream.next()
            assert news is not None
            assert [run["id"] for run in news["runs"]] == ["two"]


async def test_streams_end_with_the_server(clock: FakeClock, session: aiohttp.ClientSession) -> None:
    before = asyncio.all_tasks()
    async with DevServer(clock=clock) as server:
        api = Api(session, server.url)
        await api.running_run()
        runs = await session.get(f"{server.url}/__live")
        run = await session.get(f"{server.url}/__runs/{RUN}/live")
        streams = [Stream(runs), Stream(run)]
        for stream in streams:
            assert await stream.next() is not None
    for stream in streams:
        assert await stream.next() is None
    assert asyncio.all_tasks() == before


async def test_a_viewer_that_leaves_is_let_go(clock: FakeClock, session: aiohttp.ClientSession) -> None:
    lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with DevServer(clock=clock, access_log=lambda line: lines.put_nowait(json.loads(line))) as server:
        await Api(session, server.url).running_run()
        async with following(session, f"{server.url}/__runs/{RUN}/live") as stream:
            assert await stream.next() is not None
        while (line := await asyncio.wait_for(lines.get(), 30))["route"] != "page-data":
            pass
        assert line["path"] == "/__runs/{id}/live"


async def test_the_data_of_the_page_needs_the_token_and_the_page_does_not(
    clock: FakeClock, session: aiohttp.ClientSession
) -> None:
    async with DevServer(clock=clock, token=SECRET) as server:
        api = Api(session, server.url)
        assert (await api.request("GET", "/")).status == 200
        for path in ("/__runs", "/__live", f"/__runs/{RUN}", f"/__runs/{RUN}/live"):
            assert (await api.request("GET", path)).status == 401
        allowed = {"Authorization": f"Bearer {SECRET}"}
        assert (await api.request("GET", "/__runs", headers=allowed)).json["runs"] == []
