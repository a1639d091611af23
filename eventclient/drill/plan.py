"""Which operations a drill makes, and which of them meet which fault: all of it out of one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from eventclient.errors import ConfigurationError
from eventclient.model.events import Event

from .counting import Effect, effects_of
from .faults import FAULTS, Fault, Way
from .kinds import KINDS, Kind, mark_of, step_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    """How large a drill is.

    Attributes:
        ops: how many logical operations, at least 1.
        rate: which share of them meets a fault, 0..1.
        seed: what the operations and their faults are drawn from, at least 0.
        concurrency: how many operations are under way at once, at least 1.
        run_ops: how many operations one run takes, at least 1.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    ops: int = 1000
    rate: float = 0.1
    seed: int = 0
    concurrency: int = 32
    run_ops: int = 250

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigurationError(f"DrillOptions(rate={self.rate!r}): must be within 0..1")
        for name, least in (("ops", 1), ("seed", 0), ("concurrency", 1), ("run_ops", 1)):
            value = getattr(self, name)
            if value < least:
                raise ConfigurationError(f"DrillOptions({name}={value!r}): must be at least {least}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One logical write under one key.

    Attributes:
        index: its place in the drill.
        name: in its key and in the marks of its events.
        way: of the fault it meets; None when it meets none.
    """

    index: int
    name: str
    kind: Kind
    way: Way | None = None

    def events(self) -> tuple[Event, ...]:
        """What it writes."""
        return self.kind.make(self.name)

    def effects(self) -> tuple[Effect, ...]:
        """What the log shows of it, once for each execution."""
        return effects_of(self.events())

    def steps(self) -> tuple[str, ...]:
        """Steps that have to be there before."""
        return tuple(step_of(mark_of(self.name, number)) for number in self.kind.steps)


def plan_operations(options: DrillOptions, *, own: bool) -> tuple[Operation, ...]:
    """The operations of a drill, in order.

    Exactly ``round(ops * rate)`` of them meet a fault. The faults come by turns, and so do the ways of each.
    The first one of every fault meets a write that nothing but its key protects.

    Args:
        options: how many, how often, which seed.
        own: whether the server is the drill's own, so that every fault can be injected.
    """
    chance = random.Random(options.seed)
    faulty = sorted(chance.sample(range(options.ops), round(options.ops * options.rate)))
    ways = dict(zip(faulty, _draw_ways(len(faulty), own=own), strict=True))
    turns = len(_injectable(own=own))
    exposed = set(faulty[:turns])
    operations = []
    for index in range(options.ops):
        way = ways.get(index)
        kind = chance.choice(_fitting(way, exposed=index in exposed))
        operations.append(Operation(index, f"drill-{options.seed:x}-{index}", kind, way))
    return tuple(operations)


def _injectable(*, own: bool) -> list[tuple[Fault, tuple[Way, ...]]]:
    rows = [(fault, facts.ways if own else facts.elsewhere) for fault, facts in FAULTS.items()]
    return [(fault, ways) for fault, ways in rows if ways]


def _draw_ways(count: int, *, own: bool) -> list[Way]:
    table = [ways for _, ways in _injectable(own=own)]
    drawn = []
    for number in range(count):
        turn, column = divmod(number, len(table))
        drawn.append(table[column][turn % len(table[column])])
    return drawn


def _fitting(way: Way | None, *, exposed: bool) -> Sequence[Kind]:
    return [
        kind
        for kind in KINDS
        if not (exposed and kind.is_guarded) and (kind.has_payload or way is not Way.OTHER_PAYLOAD)
    ]
