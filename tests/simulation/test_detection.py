"""The simulation can fail, and says the same each time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from eventclient import EventClient

from .loop import StuckError, VirtualLoop
from .plan import Kind
from .running import Report, run_seed

ROOT: Final = Path(__file__).parents[2]
ATTEMPTS: Final = 150
"""In how many worlds a fault has to show."""


def find_fault(kind: Kind, words: str) -> Report | None:
    """The first world in which a violation says `words`."""
    reports = (run_seed(seed, kind) for seed in range(ATTEMPTS))
    return next((one for one in reports if any(words in violation for violation in one.violations)), None)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param(Kind.LYING, "is in the log 2 times", id="keys-are-ignored"),
        pytest.param(Kind.LYING, "which is conflict is in the log", id="keys-are-ignored-and-a-409-lies"),
        pytest.param(Kind.UNFENCED, "is in the log 2 times", id="no-fence"),
        pytest.param(Kind.FORGETFUL, "which is created is not in the log", id="nothing-is-durable"),
    ],
)
def test_a_server_that_breaks_its_word_is_caught(kind: Kind, words: str) -> None:
    report = find_fault(kind, words)
    assert report is not None
    told = str(report)
    assert f"python -m tests.simulation --seed {report.plan.seed} --kind {kind} --trace" in told
    assert "reaches server" in told


def test_a_seed_is_the_same_history_in_every_process() -> None:
    play = "from tests.simulation.running import run_seed\nfor seed in range(8):\n"
    play += "    print(*run_seed(seed).trace.lines(), sep=chr(10))"

    def traces(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", play]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout

    first = traces("1")
    assert first.count("reaches server") > 50
    assert traces("2") == first
    # Nor does it matter what was played before.
    assert "\n".join(run_seed(7).trace.lines()) in first


def test_what_nobody_expected_is_told_with_what_led_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("unheard of")

    monkeypatch.setattr(EventClient, "create_batch", fail)
    report = next(one for one in map(run_seed, range(20)) if one.violations)
    assert "RuntimeError: unheard of" in report.violations[0]
    assert "run_created" in str(report)


def test_a_call_that_never_ends_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(EventClient, "create_batch", wait)
    report = next(one for one in map(run_seed, range(20)) if one.violations)
    assert report.violations[0].startswith("stuck: ")
    assert "_caller" in report.violations[0]


def test_seeds_differ() -> None:
    assert list(run_seed(1).trace.lines()) != list(run_seed(2).trace.lines())


def test_waiting_for_nothing_is_found_out() -> None:
    loop = VirtualLoop(Random(0))
    with pytest.raises(StuckError, match="not all is done"):
        loop.run_until_complete(loop.create_future())
    loop.bury()


def test_a_task_that_waits_too_long_is_found_out() -> None:
    async def wait() -> None:
        await asyncio.sleep(1000.0)

    loop = VirtualLoop(Random(0), max_time_s=100.0)
    with pytest.raises(StuckError, match="after 100 s"):
        loop.run_until_complete(wait())
    loop.bury()
