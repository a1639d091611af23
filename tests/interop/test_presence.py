"""What happens where something is missing, and what the JavaScript client is pinned by."""

from __future__ import annotations

import json

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.support.presence import REQUIRE, missing

from .javascript import SOURCES


@pytest.mark.parametrize("required", ["", "sdk", "nodes"])
def test_what_is_missing_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch, required: str) -> None:
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(Skipped, match=r"Node\.js is not installed"):
        missing("node", "Node.js is not installed")


@pytest.mark.parametrize("required", ["node", "sdk, node"])
def test_what_is_required_may_not_be_missing(monkeypatch: pytest.MonkeyPatch, required: str) -> None:
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(Failed, match=r"Node\.js is not installed, and EVENTCLIENT_REQUIRE names node"):
        missing("node", "Node.js is not installed")


def test_packages_are_pinned_wherever_they_come_from() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: facts for name, facts in lock["packages"].items() if name}
    assert packages["node_modules/@workflow/world-vercel"]["version"] == "5.0.0-beta.50"
    for name, facts in packages.items():
        assert "resolved" not in facts, name
        assert "integrity" in facts or facts.get("optional"), name
