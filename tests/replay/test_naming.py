"""New ids for runs."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.ids import ulid_time
from eventclient.replay.naming import mint_run_ids

NOW = datetime(2026, 11, 30, 2, 8, 43, 611000, UTC)


@given(st.integers(0, 40), st.integers(0, 2**90))
def test_ids_are_new_rising_and_carry_the_time(count: int, entropy: int) -> None:
    run_ids = mint_run_ids(count, now=NOW, entropy=entropy)
    assert len(set(run_ids)) == count
    assert run_ids == sorted(run_ids)
    assert {ulid_time(run_id) for run_id in run_ids} <= {NOW}


def test_other_entropy_gives_other_ids() -> None:
    assert mint_run_ids(1, now=NOW, entropy=1) != mint_run_ids(1, now=NOW, entropy=2)
