"""How the report of a drill is written to stdout: one row per format. No format shows a payload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import click

from eventclient.drill.faults import FAULTS
from eventclient.drill.report import DrillReport, FaultTally, Schedule

from .failures import printable

_MOST_TOLD: Final = 20
"""How many violations are told before the rest is only counted."""
_WIDTH: Final = 46


def _write_text(report: DrillReport) -> None:
    """For people: a table, and what is wrong."""
    for name, value in _rows(report):
        click.echo(f"{name:<{_WIDTH}}{value}")
    for violation in report.violations[:_MOST_TOLD]:
        click.echo(f"{printable(violation.subject)}: {printable(violation.told)}")
    if len(report.violations) > _MOST_TOLD:
        click.echo(f"and {len(report.violations) - _MOST_TOLD} more")
    if report.schedule is not None:
        click.echo(_headline(report.schedule))
        for number, step in enumerate(report.schedule.steps, 1):
            click.echo(f"  {number} {printable(step)}")


def _rows(report: DrillReport) -> Iterator[tuple[str, object]]:
    zero, one, more = report.effects
    yield "operations", report.operations
    yield "deliveries", report.deliveries
    yield "faults injected", sum(tally.injected for tally in report.faults.values())
    for fault, tally in report.faults.items():
        yield f"  {FAULTS[fault].title}", _tally(tally)
    yield "keys with 0 effects", zero
    yield "keys with 1 effect", one
    yield "keys with 2+ effects", more
    yield "duplicates answered from the record", report.replays
    if report.unknown:
        yield "outcomes unknown to the client", report.unknown
    yield "violations", len(report.violations)
    yield "verdict", "pass" if report.passed else "FAIL"


def _tally(tally: FaultTally) -> str:
    if tally.reason is not None:
        return f"not injected: {tally.reason}"
    return str(tally.injected) if tally.injected == tally.planned else f"{tally.injected} of {tally.planned}"


def _headline(schedule: Schedule) -> str:
    how = "made once more, alone" if schedule.alone else "as it went in the drill, not shown by itself"
    return f"shortest schedule: {printable(schedule.subject)}; {how}:"


def _write_json(report: DrillReport) -> None:
    """For programs: one object."""
    zero, one, more = report.effects
    value = {
        "seed": report.seed,
        "operations": report.operations,
        "deliveries": report.deliveries,
        "faults": {
            fault: {"planned": tally.planned, "injected": tally.injected, "reason": tally.reason}
            for fault, tally in report.faults.items()
        },
        "keys": {"0": zero, "1": one, "2+": more},
        "replays": report.replays,
        "unknown": report.unknown,
        "violations": [
            {"operation": item.operation, "subject": item.subject, "told": item.told}
            for item in report.violations
        ],
        "schedule": _schedule_object(report.schedule),
        "seconds": round(report.elapsed_s, 3),
        "passed": report.passed,
    }
    click.echo(json.dumps(value, allow_nan=False))


def _schedule_object(schedule: Schedule | None) -> dict[str, Any] | None:
    if schedule is None:
        return None
    return {
        "operation": schedule.operation,
        "subject": schedule.subject,
        "alone": schedule.alone,
        "steps": list(schedule.steps),
    }


DRILL_FORMATS: Final[Mapping[str, Callable[[DrillReport], None]]] = MappingProxyType(
    {"text": _write_text, "json": _write_json}
)
"""One row per value of ``--format``."""
