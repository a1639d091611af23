"""The page of the reference server, as people see it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from eventclient.devserver.account import account_of
from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.devserver.stores.sqlite import SqliteStore
from tests.devserver.api import RUN, Api, event

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page, Route

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)>"
PATIENCE_MS = 30_000
DELAYS = """
    const wait = setTimeout;
    window.delays = [];
    window.setTimeout = (then, delay) => { delays.push(delay); return wait(then, 20); };
"""
"""Keeps how long the page would wait, and lets it wait hardly at all."""
TURN = """(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Turns to another tab, or back."""


@web.middleware
async def throttle_on_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    if "Throttle" not in request.headers:
        return await handler(request)
    account_of(request).faults.append("throttle")
    headers = {"Retry-After": request.headers["Throttle"]}
    return web.json_response({"code": "slow-down"}, status=429, headers=headers)


class Block(NamedTuple):
    """What stands together in the table."""

    title: str
    slots: str
    marks: str = ""


class Viewer:
    """A page in a browser, and all it asked for and complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda told: self.complaints.append(told.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    @classmethod
    async def of(cls, browser: Browser, url: str, *, script: str = "", **options: Any) -> Viewer:
        """A viewer of what is at `url`, where `script` has run before anything else."""
        viewer = cls(await browser.new_page(viewport={"width": 1360, "height": 900}, **options))
        await viewer.page.add_init_script(script)
        await viewer.page.goto(url)
        return viewer

    async def connection(self, state: str) -> None:
        """Wait until the page says how its connection is."""
        await self.page.locator(f"#connection.{state}").wait_for()

    async def open_run(self, name: str) -> None:
        await self.page.get_by_role("link", name=name, exact=True).click()
        await self.page.locator("#events tbody").first.wait_for()

    def slot(self, slot: int) -> Locator:
        return self.page.locator(f'#events tr[data-slot="{slot}"]')

    async def slots(self) -> list[int]:
        rows = await self.page.locator("#events tr[data-slot]").all()
        return [int(await row.get_attribute("data-slot") or 0) for row in rows]

    async def blocks(self) -> list[Block]:
        """Title, slots and marks of everything in the table, from top to bottom."""
        return [
            Block(
                " ".join(await each.locator(".title strong").all_inner_texts()),
                " ".join(await each.locator("tr:not(.title) .slot").all_inner_texts()),
                await each.get_attribute("data-marks") or "",
            )
            for each in await self.page.locator("#events tbody").all()
        ]


def steps(*names: str, kind: str = "step_created", **fields: Any) -> list[dict[str, Any]]:
    return [event(kind, name, **fields) for name in names]


async def checkout(api: Api) -> None:
    """A run with batches, a conflict, a throttled request and names that look like markup."""
    now = datetime.now(UTC)
    await api.pending_run(workflowName=MARKUP, at=now)
    await api.post("run_started", at=now)
    names = ["charge-card", "reserve-stock", "<script>alert(2)</script>"]
    await api.batch(
        *(event("step_created", f"step_{n}", stepName=name, at=now) for n, name in enumerate(names))
    )
    await api.batch(*steps("step_0", "step_1", "step_2", kind="step_started", at=now))
    await api.post("wait_created", "wait_0", resumeAt=now, at=now)
    await api.post("hook_created", "hook_0", token="s3cret", at=now)
    done = steps("step_0", "step_1", kind="step_completed", result=b"devl", at=now)
    await api.post("step_completed", "step_0", result=b"devl", headers={"Throttle": "2"}, at=now)
    await api.batch(*done)
    await api.batch(done[0], event("step_completed", "step_2", result=b"devl", at=now))
    await api.post("step_completed", "step_2", result=b"devl", at=now)


async def test_a_batch_that_was_handled_twice_shows_both_times(
    browser: Browser, session: aiohttp.ClientSession
) -> None:
    script = FaultScript.parse('[[rule]]\nfault = "twice"\nroute = "batch"')
    async with DevServer(faults=script) as server:
        api = Api(session, server.url)
        await api.pending_run(workflowName="twice")
        await api.post("run_started")
        await api.batch(*steps("a", "b", "c", stepName="work"))
        viewer = await Viewer.of(browser, server.url)
        await viewer.open_run("twice")
        slots = " ".join(["3 4 5", *["\N{EN DASH}"] * 3])
        assert (await viewer.blocks())[-1] == Block("Batch of 3", slots, "conflict fault")
        block = viewer.page.locator("#events tbody.group")
        assert await block.locator("tr.delivery").all_inner_texts() == ["Delivery 1", "Delivery 2"]
        assert "3 written · 3 conflicts" in await block.locator(".title").inner_text()
        assert viewer.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_run_is_shown_as_it_goes(
    browser: Browser, session: aiohttp.ClientSession, picture: Path, scheme: str
) -> None:
    async with DevServer(middlewares=[throttle_on_request]) as server:
        api = Api(session, server.url)
        await api.pending_run("wrun_older", workflowName="nightly-report")
        await checkout(api)
        viewer = await Viewer.of(browser, server.url, color_scheme=scheme)
        await viewer.open_run(MARKUP)
        assert await viewer.slots() == list(range(1, 14))
        assert await viewer.blocks() == [
            Block("", "1"),
            Block("", "2"),
            Block("Batch of 3", "3 4 5"),
            Block("Batch of 3", "6 7 8"),
            Block("", "9"),
            Block("", "10"),
            Block("POST single", "", "throttled fault"),
            Block("Batch of 2", "11 12"),
            Block("Batch of 2", "\N{EN DASH} 13", "conflict"),
            Block("", "\N{EN DASH}", "conflict"),
        ]
        told = await viewer.page.locator("#events").inner_text()
        for words in ("fault: throttle", "429 slow-down", "retry after 2 s", "409 conflict", "alert(2)"):
            assert words in told
        assert "s3cret" not in told
        await viewer.page.screenshot(path=picture)

        await api.batch(*steps("step_3", "step_4", stepName="ship"))
        await viewer.slot(15).wait_for()
        await viewer.page.locator("#events tbody.group").nth(4).wait_for()
        assert (await viewer.blocks())[-1] == Block("Batch of 2", "14 15")
        assert await viewer.slots() == list(range(1, 16))
        await api.post("run_completed")
        await viewer.page.locator("#status", has_text="completed").wait_for()
        await viewer.page.locator("#runs tr[aria-current]", has_text="completed").wait_for()
        await api.pending_run("wrun_new", workflowName="new-one")
        await viewer.page.get_by_role("link", name="new-one").wait_for()
        assert await viewer.page.locator("#runs tbody a").all_inner_texts() == [
            "new-one",
            MARKUP,
            "nightly-report",
        ]
        assert viewer.complaints == []
        assert viewer.hosts <= {urlsplit(server.url).netloc, ""}


async def test_a_long_run_is_shown_in_parts(
    browser: Browser, session: aiohttp.ClientSession, picture: Path
) -> None:
    async with DevServer(middlewares=[throttle_on_request]) as server:
        api = Api(session, server.url)
        await api.running_run()
        for number in range(12):
            await api.batch(*steps(*(f"step_{number}_{each}" for each in range(50)), stepName="work"))
            if number == 4:
                await api.post("step_created", "step_0_0", stepName="work")
        viewer = await Viewer.of(browser, f"{server.url}/#run={RUN}")
        page = viewer.page
        await viewer.slot(602).wait_for()
        assert await viewer.slots() == list(range(403, 603))
        await page.get_by_role("button", name="Mark before").click()
        await page.locator("#events tbody[data-marks=conflict]").wait_for()
        assert (await viewer.blocks())[0].title == "Batch of 50"
        assert "49 of them on another part" in await page.locator("#events .title").first.inner_text()
        assert await viewer.slots() == list(range(152, 352))
        await page.screenshot(path=picture)
        await api.batch(*steps("late", stepName="work"))
        await page.locator("#range", has_text="152\N{EN DASH}351 of 603").wait_for()
        assert await viewer.slots() == list(range(152, 352))
        await page.get_by_role("button", name="Later").click()
        await viewer.slot(551).wait_for()
        assert await viewer.slots() == list(range(352, 552))
        await page.get_by_role("button", name="First").click()
        await viewer.slot(1).wait_for()
        assert await viewer.slots() == list(range(1, 201))
        assert await page.get_by_role("button", name="Earlier").is_disabled()
        await page.go_back()
        await viewer.slot(551).wait_for()
        await page.get_by_role("button", name="Latest").click()
        await viewer.slot(603).wait_for()
        # What the table holds is bounded while more and more comes.
        for number in range(10):
            await api.batch(*steps(*(f"more_{number}_{each}" for each in range(50)), stepName="work"))
        await viewer.slot(1103).wait_for()
        assert len(await viewer.slots()) <= 400
        assert viewer.complaints == []


async def test_a_token_is_asked_for(browser: Browser, session: aiohttp.ClientSession, picture: Path) -> None:
    async with DevServer(token="right") as server:
        headers = {"Authorization": "Bearer right"}
        await Api(session, server.url).pending_run()
        async with aiohttp.ClientSession(headers=headers) as allowed:
            assert (await Api(allowed, server.url).pending_run()).status == 200
        viewer = await Viewer.of(browser, server.url)
        page = viewer.page
        field = page.get_by_label("The token it was started with")
        await field.fill("wrong")
        await page.screenshot(path=picture)
        await field.press("Enter")
        await page.get_by_text("does not take that token").wait_for()
        await field.fill("right")
        await page.get_by_role("button", name="Open").click()
        await viewer.open_run("flow")
        await viewer.connection("live")
        assert await field.input_value() == ""
        assert "right" not in page.url
        assert await page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


async def test_a_run_that_is_not_there_is_said_not_to_be(browser: Browser) -> None:
    async with DevServer() as server:
        viewer = await Viewer.of(browser, f"{server.url}/#run=nowhere")
        await viewer.page.get_by_text("There is no such run on this server.").wait_for()
        assert await viewer.page.get_by_text("No runs yet").is_visible()


async def test_a_server_that_comes_back_is_found_again(
    browser: Browser, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    async with DevServer(store) as server:
        url = server.url
        await Api(session, url).running_run()
        viewer = await Viewer.of(browser, f"{url}/#run={RUN}")
        await viewer.slot(2).wait_for()
        await viewer.connection("live")
    await viewer.connection("lost")
    async with DevServer(store, port=urlsplit(url).port or 0):
        await viewer.connection("live")
        await Api(session, url).batch(*steps("late", stepName="work"))
        await viewer.slot(3).wait_for()
        assert await viewer.slots() == [1, 2, 3]


async def test_a_server_that_has_nothing_to_say_is_connected(browser: Browser) -> None:
    async with DevServer() as server:
        url = server.url
        viewer = await Viewer.of(browser, url, script=DELAYS, bypass_csp=True)
        await viewer.connection("live")
        await viewer.page.evaluate(TURN, True)
        await viewer.connection("paused")
        await viewer.page.evaluate(TURN, False)
        await viewer.connection("live")
    await viewer.connection("lost")
    await viewer.page.wait_for_function("delays.at(-1) > 2000")
    async with DevServer(port=urlsplit(url).port or 0):
        await viewer.connection("live")
        await viewer.page.evaluate("delays.length = 0")
    # It waits as shortly as if it had never been without a connection.
    await viewer.page.wait_for_function("delays.length > 2")
    assert await viewer.page.evaluate("delays.slice(0, 3)") == [500, 1000, 2000]


@pytest.mark.parametrize("path", ["**/__runs", f"**/__runs/{RUN}?*"])
async def test_a_mistake_of_the_page_is_no_lost_connection(
    browser: Browser, session: aiohttp.ClientSession, path: str
) -> None:
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(json={"runs": None})

    async with DevServer() as server:
        await Api(session, server.url).running_run()
        viewer = await Viewer.of(browser, "about:blank", script=DELAYS)
        await viewer.page.route(path, answer)
        await viewer.page.goto(f"{server.url}/#run={RUN}")
        await viewer.connection("broken")
        assert len(viewer.complaints) == len(asked) == 1


async def test_a_date_to_retry_after_is_shown_as_one(
    browser: Browser, session: aiohttp.ClientSession
) -> None:
    async with DevServer(middlewares=[throttle_on_request]) as server:
        api = Api(session, server.url)
        await api.running_run()
        for text in ("Sun, 06 Nov 1994 08:49:37 GMT", "soon"):
            await api.post("step_created", "step_0", stepName="work", headers={"Throttle": text})
        viewer = await Viewer.of(browser, f"{server.url}/#run={RUN}", timezone_id="UTC")
        titles = viewer.page.locator("#events .title .what")
        await titles.nth(1).wait_for()
        told = await titles.all_inner_texts()
        assert [text.partition("retry after ")[2] for text in told] == ["1994-11-06 08:49:37", "soon"]


async def test_any_number_of_marks_can_be_gone_through(
    browser: Browser, session: aiohttp.ClientSession
) -> None:
    async def answer(route: Route) -> None:
        response = await route.fetch()
        part = {**json.loads(await response.text()), "places": list(range(300_000))}
        await route.fulfill(response=response, json=part)

    async with DevServer() as server:
        api = Api(session, server.url)
        await api.running_run()
        for number in range(8):
            await api.batch(*steps(*(f"step_{number}_{each}" for each in range(50)), stepName="work"))
        viewer = await Viewer.of(browser, "about:blank")
        await viewer.page.route(f"**/__runs/{RUN}?*", answer)
        await viewer.page.goto(f"{server.url}/#run={RUN}&from=1")
        await viewer.slot(200).wait_for()
        assert await viewer.page.evaluate("view.places.length") == 1000
        await viewer.page.get_by_role("button", name="Mark behind").click()
        await viewer.slot(402).wait_for()
        assert viewer.complaints == []


async def test_refusals_are_shown_up_to_a_bound(browser: Browser, session: aiohttp.ClientSession) -> None:
    async with DevServer() as server:
        api = Api(session, server.url)
        await api.running_run()
        viewer = await Viewer.of(browser, f"{server.url}/#run={RUN}")
        await viewer.slot(2).wait_for()
        for _ in range(410):
            await api.post("step_created", "step_0", stepName="work")
        await viewer.page.get_by_text("409 conflicts").wait_for()
        assert await viewer.page.locator("#events .refusal").count() == 400
