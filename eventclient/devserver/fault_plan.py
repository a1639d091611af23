"""Which faults a request meets: the rules of a script, applied to one request after the other."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from .faults import AnyRule, FaultScript, Lossy, Rule

API_PATH: Final = "/api/"
MAX_RECENT: Final = 100
"""How many injections a report tells of."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a rule looks at in a request."""

    request: str
    route: str
    run_id: str | None = None
    event_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fired:
    """A rule that fired; `number` counts the rules from 1."""

    number: int
    rule: AnyRule

    def __str__(self) -> str:
        after = " after commit" if isinstance(self.rule, Lossy) and self.rule.commit else ""
        name = f" {self.rule.name}" if self.rule.name else ""
        return f"{self.rule.fault}{after} (rule {self.number}{name})"


@dataclass(slots=True)
class Tally:
    """What a rule has done: requests that matched, faults that met one, faults another rule overtook."""

    matched: int = 0
    injected: int = 0
    overtaken: int = 0


class FaultPlan:
    """Decides, request by request, which faults to inject, and keeps count. Does no IO."""

    def __init__(self, script: FaultScript) -> None:
        self._script = script
        self._tallies = [Tally() for _ in script.rule]
        self._recent: deque[dict[str, Any]] = deque(maxlen=MAX_RECENT)
        self._count = 0

    def decide(self, asked: Asked) -> list[Fired]:
        """The faults that the next request meets, in order: delays, then at most one other."""
        carried: list[Fired] = []
        for number, (rule, tally) in enumerate(zip(self._script.rule, self._tallies, strict=True), 1):
            if not _matches(rule, asked):
                continue
            tally.matched += 1
            if not self._fires(number, rule, tally):
                continue
            if carried and carried[-1].rule.fault != "delay":
                tally.overtaken += 1
            else:
                tally.injected += 1
                carried.append(Fired(number, rule))
        self._count += len(carried)
        self._recent.extend({"rule": fired.number, "fault": str(fired), **asdict(asked)} for fired in carried)
        return carried

    def report(self) -> dict[str, Any]:
        """What was injected, for JSON: a count for each rule, and the last `MAX_RECENT` injections."""
        rules = [
            {"rule": number, "name": rule.name, "fault": rule.fault, **asdict(tally)}
            for number, (rule, tally) in enumerate(zip(self._script.rule, self._tallies, strict=True), 1)
        ]
        return {
            "seed": self._script.seed,
            "injected": self._count,
            "rules": rules,
            "recent": list(self._recent),
        }

    def _fires(self, number: int, rule: Rule, tally: Tally) -> bool:
        return (
            (rule.nth is None or tally.matched in rule.nth)
            and (rule.every is None or tally.matched % rule.every == 0)
            and (rule.times is None or tally.injected + tally.overtaken < rule.times)
            and (
                rule.probability is None
                or draw_chance(self._script.seed, number, tally.matched) < rule.probability
            )
        )


def _matches(rule: Rule, asked: Asked) -> bool:
    if rule.route is None:
        if not asked.request.partition(" ")[2].startswith(API_PATH):
            return False
    elif asked.route not in rule.route:
        return False
    if rule.event_type is not None and not set(rule.event_type) & set(asked.event_types):
        return False
    return rule.run is None or (asked.run_id is not None and fnmatchcase(asked.run_id, rule.run))


def draw_chance(seed: int, number: int, matched: int) -> float:
    """A number in [0, 1) for one match of one rule: the same for the same arguments, on every machine."""
    digest = hashlib.sha256(f"{seed}/{number}/{matched}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)
