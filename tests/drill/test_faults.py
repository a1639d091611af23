"""The table of faults is total, and no way belongs to two of them."""

from __future__ import annotations

import pytest

from eventclient.drill.faults import FAULT_OF, FAULTS, ZOMBIES, Fault, Way


def test_every_fault_has_its_row() -> None:
    assert set(FAULTS) == set(Fault)
    assert len({facts.title for facts in FAULTS.values()}) == len(Fault)


def test_every_way_is_of_one_fault() -> None:
    assert set(FAULT_OF) == set(Way)
    for way in Way:
        assert sum(way in facts.ways for facts in FAULTS.values()) == 1


@pytest.mark.parametrize("fault", Fault)
def test_elsewhere_nothing_else_happens(fault: Fault) -> None:
    assert set(FAULTS[fault].elsewhere) <= set(FAULTS[fault].ways)


def test_the_first_crash_is_a_zombie() -> None:
    assert FAULTS[Fault.CRASH].ways[0] in ZOMBIES
    assert Way.HOLDER_LOST in FAULTS[Fault.CRASH].ways
    assert not FAULTS[Fault.CRASH].elsewhere
