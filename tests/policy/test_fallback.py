"""What a refusal of the batch route means, and how long it is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.policy.fallback import Fallback, FallbackLatch, fallback_for
from eventclient.wire.spec import CODE_BATCH_REQUIRES_SLOT_IDENTITY as CODE


@pytest.mark.parametrize(
    ("status", "code", "meaning"),
    [
        (404, None, Fallback.LATCH),
        (404, "run-not-found", Fallback.LATCH),
        (405, None, Fallback.LATCH),
        (400, CODE, Fallback.LATCH),
        (400, None, Fallback.ONCE),
        (400, "validation-error", Fallback.ONCE),
        (400, CODE.upper(), Fallback.ONCE),
        (401, None, Fallback.NONE),
        (403, None, Fallback.NONE),
        (409, CODE, Fallback.NONE),
        (410, None, Fallback.NONE),
        (413, None, Fallback.NONE),
        (429, None, Fallback.NONE),
        (500, CODE, Fallback.NONE),
        (200, None, Fallback.NONE),
        (301, None, Fallback.NONE),
    ],
)
def test_what_a_refusal_means(status: int, code: str | None, meaning: Fallback) -> None:
    assert fallback_for(status, code, latching_code=CODE) is meaning


def test_the_latch_holds_for_its_run_until_it_expires() -> None:
    latch = FallbackLatch()
    assert not latch.holds("r", 0.0)
    latch.set("r", 100.0)
    assert latch.holds("r", 100.0)
    assert latch.holds("r", 100.0 + latch.LIFETIME_S - 0.001)
    assert not latch.holds("other", 100.0)
    assert not latch.holds("r", 100.0 + latch.LIFETIME_S)
    # Once expired it stays so, whatever a clock says later.
    assert not latch.holds("r", 100.0)


def test_setting_it_again_starts_it_anew() -> None:
    latch = FallbackLatch()
    latch.set("r", 0.0)
    latch.set("r", 500.0)
    assert latch.holds("r", 500.0 + latch.LIFETIME_S - 1)


@given(st.lists(st.integers(0, 2 * FallbackLatch.MAX_RUNS), max_size=50))
def test_the_memory_is_bounded_and_keeps_the_latest(again: list[int]) -> None:
    latch = FallbackLatch()
    order: list[int] = []
    for number in [*range(FallbackLatch.MAX_RUNS + 100), *again]:
        latch.set(str(number), 0.0)
        if number in order:
            order.remove(number)
        order.append(number)
        order = order[-FallbackLatch.MAX_RUNS :]
    held = [number for number in range(2 * FallbackLatch.MAX_RUNS + 1) if latch.holds(str(number), 1.0)]
    assert held == sorted(order)
