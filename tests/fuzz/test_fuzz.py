"""Five thousand inputs, half to each kind of store: none meets a fault of the server, or makes it grow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.harness import MAX_GROWTH, FindingError, Harness
from tests.fuzz.inputs import HOSTED_GET, KINDS, Shot, make_shot

WARM_UP_COUNT = 700
COUNT = 1800


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_no_input_brings_the_server_down_or_makes_it_grow(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "runs.db" if kind == "file" else None
    with Harness(place) as harness:

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
        assert place is None or place.stat().st_size > 0
        assert after < before * (1 + MAX_GROWTH), (before, after)


def test_a_fault_of_the_server_would_be_seen() -> None:
    with Harness() as harness:

        async def fail(*_: object) -> None:
            raise RuntimeError("on purpose")

        harness._server._store.read_log = fail  # type: ignore[assignment]
        with pytest.raises(FindingError, match="500"):
            harness.fire(make_shot_of("/api/v4/runs/wrun_fuzz/events"))


def test_a_request_without_an_answer_would_be_seen() -> None:
    with Harness() as harness:
        # Nobody asked for anything.
        assert harness.fire(Shot(b"", False)) == 0
        assert harness.fire(Shot(HOSTED_GET, False)) == 200

        async def hang_up(*_: object) -> None:
            for connection in harness._server._runner.server.connections:  # type: ignore[union-attr]
                connection.force_close()

        harness._server._store.read_log = hang_up  # type: ignore[assignment]
        with pytest.raises(FindingError, match="no answer"):
            harness.fire(Shot(HOSTED_GET.replace(b"/", b"/api/v4/runs/wrun_fuzz/events", 1), False))


def test_growth_would_be_seen() -> None:
    with Harness() as harness:
        before = harness.count_objects()
        leak: list[list[object]] = [[] for _ in range(before // 10)]
        assert harness.count_objects() > before * (1 + MAX_GROWTH)
        assert leak


def make_shot_of(path: str) -> Shot:
    return Shot(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), True, "GET", path)


def test_bytes_of_every_kind_make_an_input() -> None:
    shots = [make_shot(bytes((kind, *range(200)))) for kind in range(len(KINDS))]
    assert {shot.framed for shot in shots} == {True, False}
    assert len({shot.data for shot in shots}) == len(set(KINDS))
    assert make_shot(b"").data
