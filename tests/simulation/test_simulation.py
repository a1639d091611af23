"""Two thousand seeds; one that does not hold prints its trace and the command that repeats it."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from .plan import Kind
from .running import run_seed

SEED_COUNT: Final = int(os.environ.get("SIMULATION_SEEDS", "2000"))
BLOCK: Final = 200
OUTCOMES: Final = ("created", "conflict", "rejected", "unknown", "unsent")
"""What every block has to have met: a world in which nothing happens proves nothing."""


@pytest.mark.parametrize("first", range(0, SEED_COUNT, BLOCK))
def test_everything_holds_in_every_world(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        report = run_seed(seed)
        assert not report.violations, str(report)
        counts.update(report.counts)
    for kind in (Kind.KEYED, Kind.OLD):
        assert all(counts[f"{kind}: {outcome}"] for outcome in OUTCOMES), counts
    assert counts["old: already_applied"], counts
    assert counts["answers replayed"], counts
    assert counts["answers collected"], counts
    assert counts["crashes"], counts
