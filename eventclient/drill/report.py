"""What a drill found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .faults import Fault


@dataclass(frozen=True, slots=True)
class FaultTally:
    """How often a fault was to happen, and did.

    Attributes:
        reason: why it cannot be injected; None when it can.
    """

    planned: int
    injected: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be.

    Attributes:
        operation: its index; None when it is about a run.
        subject: the operation or the run in words.
        told: what is wrong.
        is_hollow: nobody did wrong, but the drill tried less than it should have.
    """

    operation: int | None
    subject: str
    told: str
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happened to one operation, step by step.

    Attributes:
        alone: the operation, made once more with no other beside it, shows its violation in these steps. Else
            they are those of the drill.
    """

    operation: int
    subject: str
    steps: tuple[str, ...]
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The counts, and what they say.

    Attributes:
        operations: logical writes, each under a key of its own.
        deliveries: requests that went out under these keys.
        faults: by kind.
        effects: how many keys have no committed effect, one, and more than one.
        replays: answers that came from the record.
        unknown: operations of which the client could not tell the outcome, on a server not the drill's own.
        violations: in the order of the operations.
        schedule: the shortest that shows a violation.
    """

    seed: int
    operations: int
    deliveries: int
    faults: Mapping[Fault, FaultTally]
    effects: tuple[int, int, int]
    replays: int
    unknown: int
    violations: tuple[Violation, ...]
    schedule: Schedule | None
    elapsed_s: float

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.violations
