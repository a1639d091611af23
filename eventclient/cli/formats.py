"""How a replay and a plan are written to stdout: one row per format.

No format shows a payload, a token or anything else out of `eventData`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final, Protocol

import click

from eventclient.recordings.order import RunPlan
from eventclient.replay.report import ReplayReport, RunReport, Settled, Totals, Verdict

from .failures import printable

_ORDINARY: Final = frozenset({Verdict.APPLIED, Verdict.EXPECTED})


class Format(Protocol):
    """Writes what a replay did, piece by piece."""

    def planned(self, plans: Sequence[RunPlan]) -> None:
        """A dry run: what would be sent."""

    def settled(self, item: Settled) -> None:
        """One event has met its end."""

    def finished(self, report: ReplayReport) -> None:
        """The replay is over."""


class TextFormat:
    """For people: a line per run and per event that needs a look, and one line of sums at the end."""

    def planned(self, plans: Sequence[RunPlan]) -> None:
        for plan in plans:
            row = _planned_run(plan)
            click.echo(
                f"{_name(plan)}: {row['events']} events, {row['hoisted']} of them moved up,"
                f" {row['expected']} expected refusals, {row['skipped']} rows skipped"
            )
        events = sum(len(plan.postings) for plan in plans)
        click.echo(f"dry run: {events} events in {len(plans)} runs would be sent; nothing was")

    def settled(self, item: Settled) -> None:
        if item.verdict in _ORDINARY:
            return
        told = item.difference or item.message or ""
        status = "" if item.status is None else f" {item.status}"
        click.echo(
            f"{item.run_id} event {item.index} {item.event_type}:"
            f" {item.verdict}{status}{': ' if told else ''}{printable(told)}"
        )

    def finished(self, report: ReplayReport) -> None:
        for run in report.runs:
            click.echo(f"{_name(run.plan)}: {_sums(run.totals)}")
        click.echo(_sums(report.totals))


class JsonFormat:
    """For programs: one object, when everything is over."""

    def planned(self, plans: Sequence[RunPlan]) -> None:
        _echo_json({**_planned_sums(plans), "runs": [_planned_run(plan) for plan in plans]})

    def settled(self, item: Settled) -> None:
        pass

    def finished(self, report: ReplayReport) -> None:
        runs = [
            {
                **_run_object(run),
                "unapplied": [
                    _event_object(item) for item in run.settled if item.verdict is not Verdict.APPLIED
                ],
            }
            for run in report.runs
        ]
        _echo_json({**_summary(report), "runs": runs})


class JsonLinesFormat:
    """For programs that read along: one object per event, in order, and one of sums at the end."""

    def planned(self, plans: Sequence[RunPlan]) -> None:
        for plan in plans:
            for index, posting in enumerate(plan.postings):
                _echo_json(
                    {
                        "run": plan.run_id,
                        "index": index,
                        "type": posting.event.event_type,
                        "recorded_event_id": posting.row.event_id,
                        "hoisted": posting.hoisted,
                        "expected_refusals": sorted(posting.expected),
                    }
                )
        _echo_json({"summary": True, **_planned_sums(plans)})

    def settled(self, item: Settled) -> None:
        _echo_json(_event_object(item))

    def finished(self, report: ReplayReport) -> None:
        _echo_json({"summary": True, **_summary(report), "runs": len(report.runs)})


FORMATS: Final[Mapping[str, Callable[[], Format]]] = MappingProxyType(
    {"text": TextFormat, "json": JsonFormat, "jsonl": JsonLinesFormat}
)
"""One row per value of ``--format``."""


def _echo_json(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, allow_nan=False))


def _name(plan: RunPlan) -> str:
    recorded = plan.recorded_run_id
    return plan.run_id if plan.run_id == recorded else f"{plan.run_id} (recorded as {recorded})"


def _sums(totals: Totals) -> str:
    parts = [
        f"{totals.events} events",
        f"{totals.requests} requests",
        f"{totals.events_per_request:.2f} events per request",
        f"{totals.created} created",
        f"{totals.conflicts} conflicts",
        f"{totals.refused} refused",
    ]
    # What seldom happens is told only when it did.
    for count, what in (
        (totals.already_applied, "applied by an earlier attempt"),
        (totals.expected, "expected refusals"),
        (totals.differing, "differing"),
        (totals.unknown, "unknown"),
        (totals.unsent, "unsent"),
        (totals.skipped, "rows skipped"),
    ):
        if count:
            parts.append(f"{count} {what}")
    parts += [f"{totals.seconds:.2f} seconds", f"{totals.throttled_seconds:.2f} seconds throttled"]
    return ", ".join(parts)


def _totals_object(totals: Totals) -> dict[str, Any]:
    sums = asdict(totals)
    sums["seconds"] = round(totals.seconds, 3)
    sums["throttled_seconds"] = round(totals.throttled_seconds, 3)
    return {**sums, "events_per_request": round(totals.events_per_request, 2)}


def _summary(report: ReplayReport) -> dict[str, Any]:
    stopped = report.stopped
    return {
        **_totals_object(report.totals),
        "applied": report.totals.applied,
        "stopped": None if stopped is None else str(stopped),
    }


def _run_object(run: RunReport) -> dict[str, Any]:
    return {
        "run": run.plan.run_id,
        "recorded_run": run.plan.recorded_run_id,
        **_totals_object(run.totals),
    }


def _event_object(item: Settled) -> dict[str, Any]:
    return {
        "run": item.run_id,
        "index": item.index,
        "type": item.event_type,
        "outcome": item.outcome,
        "status": item.status,
        "verdict": item.verdict,
        "code": item.code,
        "recorded_event_id": item.recorded_event_id,
        "stored_event_id": item.stored_event_id,
        "difference": item.difference,
    }


def _planned_run(plan: RunPlan) -> dict[str, Any]:
    return {
        "run": plan.run_id,
        "recorded_run": plan.recorded_run_id,
        "events": len(plan.postings),
        "hoisted": sum(posting.hoisted for posting in plan.postings),
        "expected": sum(bool(posting.expected) for posting in plan.postings),
        "skipped": len(plan.skipped),
        "missing_slots": [list(gap) for gap in plan.missing_slots],
    }


def _planned_sums(plans: Sequence[RunPlan]) -> dict[str, Any]:
    return {
        "dry_run": True,
        "events": sum(len(plan.postings) for plan in plans),
        "skipped": sum(len(plan.skipped) for plan in plans),
    }
