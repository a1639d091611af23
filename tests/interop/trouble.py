"""Scripts of faults, and whether everything in them happened."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import aiohttp

from eventclient.devserver.faults import FaultScript

FOLDER: Final = Path(__file__).parent / "faults"


def load_faults(name: str) -> FaultScript:
    return FaultScript.load(FOLDER / f"{name}.toml")


async def assert_all_injected(server_url: str, script: FaultScript) -> None:
    """Every rule was carried out as often as it says: a client that came through unharmed proves nothing."""
    async with aiohttp.ClientSession() as session, session.get(f"{server_url}/__faults") as response:
        report = await response.json()
    injected = [(rule["rule"], rule["name"], rule["injected"]) for rule in report["rules"]]
    planned = [(number, rule.name, len(rule.nth or ())) for number, rule in enumerate(script.rule, 1)]
    assert injected == planned
