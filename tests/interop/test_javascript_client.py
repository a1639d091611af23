"""The published JavaScript client against the reference server: `js/scenarios` says what it does."""

from __future__ import annotations

from typing import Final

import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.store import Store

from .javascript import JavaScriptClient
from .trouble import assert_all_injected, load_faults

pytestmark = pytest.mark.interop

CALM: Final = 31
"""How many scenarios there are, so that none is left out unseen."""


async def test_it_works_unchanged(javascript: JavaScriptClient, store: Store) -> None:
    async with DevServer(store) as server:
        report = await javascript.play("calm", server.url)
    assert_all_well(report, CALM)


@pytest.mark.parametrize(("trouble", "count"), [("throttle", 1), ("reset", 5), ("cut", 3), ("refuse", 3)])
async def test_it_comes_through_trouble(
    javascript: JavaScriptClient, durable_store: Store, trouble: str, count: int
) -> None:
    script = load_faults(f"javascript/{trouble}")
    async with DevServer(durable_store, faults=script) as server:
        report = await javascript.play(trouble, server.url)
        assert_all_well(report, count)
        await assert_all_injected(server.url, script)


def assert_all_well(report: dict[str, str | None], count: int) -> None:
    failures = [f"{scenario}: {error}" for scenario, error in report.items() if error is not None]
    assert not failures, "\n\n".join(failures)
    assert len(report) == count, sorted(report)
