"""Headless Chromium, and where its pictures are kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.support.presence import missing

if TYPE_CHECKING:
    from playwright.async_api import Browser

ARTEFACTS: Final = "EVENTCLIENT_ARTEFACTS"
"""Environment variable: the directory for what a run leaves behind; without it, one of pytest's own."""
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PICTURE: Final = "picture"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser of its own; skips the test where there is none."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        missing("browser", "the playwright package is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        missing("browser", "Chromium is not installed")
    async with AsyncExitStack() as stack:
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        stack.push_async_callback(browser.close)
        yield browser


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def picture(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Where to put the picture of a test, outside of the repository."""
    place = os.environ.get(ARTEFACTS)
    folder = Path(place) if place else tmp_path_factory.getbasetemp() / "artefacts"
    folder.mkdir(parents=True, exist_ok=True)
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
    path = folder / f"{name}.png"
    # A property of the test's report, which also comes back from a worker process.
    request.node.user_properties.append((_PICTURE, str(path)))
    return path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the pictures that were taken."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    told = [str(value) for report in reports for name, value in report.user_properties if name == _PICTURE]
    taken = [path for path in told if Path(path).exists()]
    if taken:
        terminalreporter.section("pictures of the page")
    for path in taken:
        terminalreporter.line(path)
