"""Five thousand inputs: none meets a fault of the server, and nothing is left behind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.harness import FindingError, Harness
from tests.fuzz.inputs import KINDS, Shot, make_shot

WARM_UP_COUNT = 1000
COUNT = 4000
MAX_GROWTH = 0.05
"""Which share of its objects a server may have more after `COUNT` inputs than before them."""


def test_no_input_brings_the_server_down_or_makes_it_grow() -> None:
    with Harness() as harness:

        def attack(count: int, seed: int) -> None:
            @settings(
                max_examples=count,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            )
            @given(st.binary(min_size=16, max_size=400))
            def fire(data: bytes) -> None:
                harness.fire(make_shot(bytes((data[0] + seed & 0xFF,)) + data[1:]))

            fire()

        attack(WARM_UP_COUNT, 1)
        before = harness.count_objects()
        attack(COUNT, 0)
        after = harness.count_objects()
        assert harness.count >= WARM_UP_COUNT + COUNT
        # Otherwise the inputs would all stop at the same door.
        assert {200, 400, 404} <= set(harness.statuses)
        assert after < before * (1 + MAX_GROWTH), (before, after)


def test_a_fault_of_the_server_would_be_seen() -> None:
    with Harness() as harness:

        async def fail(*_: object) -> None:
            raise RuntimeError("on purpose")

        harness._server._store.read_log = fail  # type: ignore[assignment]
        with pytest.raises(FindingError, match="500"):
            harness.fire(make_shot_of("/api/v4/runs/wrun_fuzz/events"))


def make_shot_of(path: str) -> Shot:
    return Shot(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), True, "GET", path)


def test_bytes_of_every_kind_make_an_input() -> None:
    shots = [make_shot(bytes((kind, *range(200)))) for kind in range(len(KINDS))]
    assert {shot.framed for shot in shots} == {True, False}
    assert len({shot.data for shot in shots}) == len(set(KINDS))
    assert make_shot(b"").data
