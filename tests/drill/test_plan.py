"""Operations and faults out of a seed."""

from __future__ import annotations

from collections import Counter

import pytest

from eventclient.drill.faults import FAULT_OF, FAULTS, ZOMBIES, Fault, Way
from eventclient.drill.kinds import KINDS
from eventclient.drill.plan import DrillOptions, Operation, plan_operations
from eventclient.errors import ConfigurationError

SEEDS = range(20)


def plan(ops: int = 100, rate: float = 0.1, seed: int = 0, *, own: bool = True) -> tuple[Operation, ...]:
    return plan_operations(DrillOptions(ops=ops, rate=rate, seed=seed), own=own)


def ways(operations: tuple[Operation, ...]) -> list[Way]:
    return [item.way for item in operations if item.way is not None]


@pytest.mark.parametrize(("ops", "rate"), [(1, 0.0), (1, 1.0), (99, 0.1), (1000, 0.3), (333, 0.333)])
@pytest.mark.parametrize("own", [True, False])
def test_the_number_of_faults_is_exact_and_they_are_spread_evenly(ops: int, rate: float, own: bool) -> None:
    drawn = ways(plan(ops, rate, own=own))
    assert len(drawn) == round(ops * rate)
    faults = [fault for fault in Fault if own or FAULTS[fault].elsewhere]
    counts = Counter(FAULT_OF[way] for way in drawn)
    assert set(counts) <= set(faults)
    assert max(counts[fault] for fault in faults) - min(counts[fault] for fault in faults) <= 1


def test_a_hundred_operations_meet_every_fault_twice() -> None:
    for seed in SEEDS:
        assert Counter(FAULT_OF[way] for way in ways(plan(seed=seed))) == dict.fromkeys(Fault, 2)


def test_the_ways_of_a_fault_come_by_turns() -> None:
    drawn = [way for way in ways(plan(1000, 0.3)) if FAULT_OF[way] is Fault.CRASH]
    turns = FAULTS[Fault.CRASH].ways
    assert drawn == [turns[number % len(turns)] for number in range(len(drawn))]


def test_the_first_of_every_fault_meets_what_only_the_key_protects() -> None:
    for seed in SEEDS:
        first: dict[Fault, Operation] = {}
        for item in plan(seed=seed):
            if item.way is not None:
                first.setdefault(FAULT_OF[item.way], item)
        assert not any(item.kind.is_guarded for item in first.values())
        assert first[Fault.CRASH].way in ZOMBIES


def test_only_what_has_a_payload_can_get_another() -> None:
    for item in plan(1000, 1.0):
        assert item.way is not Way.OTHER_PAYLOAD or item.kind.has_payload


def test_a_seed_is_a_plan() -> None:
    assert plan(500, 0.3, seed=5) == plan(500, 0.3, seed=5)
    assert plan(500, 0.3, seed=5) != plan(500, 0.3, seed=6)


def test_every_kind_is_drawn_and_no_name_twice() -> None:
    operations = plan(500)
    assert {item.kind.name for item in operations} == {kind.name for kind in KINDS}
    assert len({item.name for item in operations}) == 500
    assert [item.index for item in operations] == list(range(500))


def test_no_effect_is_of_two_operations() -> None:
    effects = [effect for item in plan(500, seed=11) for effect in item.effects()]
    assert len(set(effects)) == len(effects)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ops", 0),
        ("rate", -0.1),
        ("rate", 1.1),
        ("rate", float("nan")),
        ("seed", -1),
        ("concurrency", 0),
        ("run_ops", 0),
    ],
)
def test_values_out_of_range(field: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=field):
        DrillOptions(**{field: value})  # type: ignore[arg-type]
