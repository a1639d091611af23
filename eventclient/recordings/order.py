"""Recorded rows as the events that can be posted again: their order, their form, what to expect.

Source: the logs in `tests/recordings` and the same kind of logs replayed into
`@workflow/world-local` 5.0.0-beta.46 row by row.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eventclient.errors import InvalidEventError
from eventclient.model.event_specs import EVENT_SPECS, SERVER_EVENT_TYPES, payload_of
from eventclient.model.events import Event
from eventclient.model.ids import slot_of
from eventclient.model.parsing import parse_event

from .expectation import NONE, Statuses, expected_refusals
from .rows import RecordedRow, RecordedRun, RecordingError


@dataclass(frozen=True, slots=True)
class Posting:
    """One recorded event in the form in which it is posted.

    Attributes:
        event: what to post.
        row: where it comes from.
        resume_id: the write option of a delivery that was made with one; never part of the event.
        expected: the statuses with which a server may refuse it without anything being wrong.
        hoisted: it was moved before the first event of its entity.
        conflicting_run_id: of a recorded ``hook_conflict``, the run that held the token.
    """

    event: Event
    row: RecordedRow
    resume_id: str | None = None
    expected: Statuses = NONE
    hoisted: bool = False
    conflicting_run_id: str | None = None

    @property
    def resume_payload_digest(self) -> str | None:
        """The hex sha-256 of the payload, which a resume id needs beside it and logs do not hold."""
        return None if self.resume_id is None else hashlib.sha256(payload_of(self.event)).hexdigest()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is not posted, and why."""

    row: RecordedRow
    reason: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run as it can be posted.

    Attributes:
        run_id: the run to post to.
        recorded_run_id: the run it was recorded as; differs once `rename_runs` gave it a new id.
        postings: the events, in the order to post them in.
        skipped: the rows that are not posted.
        missing_slots: first and last slot of each gap: rows that the recording should have and has not.
    """

    run_id: str
    recorded_run_id: str
    postings: tuple[Posting, ...] = field(repr=False)
    skipped: tuple[Skipped, ...] = ()
    missing_slots: tuple[tuple[int, int], ...] = ()


def plan_run(run: RecordedRun) -> RunPlan:
    """The events of `run` in the order and form in which they can be posted again.

    The order is that of the event ids, never of the times: writers give several events one
    millisecond, and clocks go back. A create whose id came out later than that of the entity's
    first event is moved before it.

    Raises:
        RecordingError: a row is no event that could be posted; names its file.
    """
    rows = sorted(run.rows, key=lambda row: row.event_id)
    skipped = tuple(
        Skipped(row, "fills a slot and holds nothing") for row in rows if row.event_type == "noop"
    )
    postings = hoist_creates([_posting(row) for row in rows if row.event_type != "noop"])
    expected = expected_refusals(posting.event for posting in postings)
    return RunPlan(
        run.run_id,
        run.run_id,
        tuple(
            replace(posting, expected=statuses) for posting, statuses in zip(postings, expected, strict=True)
        ),
        skipped,
        _missing_slots(rows),
    )


def rename_runs(plans: Sequence[RunPlan], run_ids: Sequence[str]) -> list[RunPlan]:
    """`plans` under new `run_ids`, one each, wherever a plan names one of the runs."""
    names = {plan.run_id: new for plan, new in zip(plans, run_ids, strict=True)}
    return [
        replace(
            plan,
            run_id=names[plan.run_id],
            postings=tuple(
                replace(posting, conflicting_run_id=names.get(holder, holder))
                if (holder := posting.conflicting_run_id)
                else posting
                for posting in plan.postings
            ),
        )
        for plan in plans
    ]


def hoist_creates(postings: Sequence[Posting]) -> list[Posting]:
    """`postings` with each entity's create before its other events; the rest keeps its order.

    ``run_created`` comes before everything. Of several creates of one entity the first is moved.
    """
    creates: dict[str | None, int] = {}
    firsts: dict[str | None, int] = {None: 0}
    for index, posting in enumerate(postings):
        key = posting.event.correlation_id
        firsts.setdefault(key, index)
        if posting.event.event_type.endswith("_created"):
            creates.setdefault(key, index)
    late = {key: index for key, index in creates.items() if index > firsts[key]}
    hoists: dict[int, list[int]] = {}
    # The run's own create first, where both it and an entity's are moved before the same event.
    for key, index in sorted(late.items(), key=lambda item: (item[0] is not None, item[1])):
        hoists.setdefault(firsts[key], []).append(index)
    moved = set(late.values())
    ordered: list[Posting] = []
    for index, posting in enumerate(postings):
        ordered.extend(replace(postings[create], hoisted=True) for create in hoists.get(index, ()))
        if index not in moved:
            ordered.append(posting)
    return ordered


def _posting(row: RecordedRow) -> Posting:
    if row.event_type not in EVENT_SPECS and row.event_type not in SERVER_EVENT_TYPES:
        raise RecordingError(
            row.path,
            "its eventType is none this version knows: update eventclient, or leave the run out with --run",
            run_id=row.run_id,
        )
    resume_id, conflicting_run_id = row.fields.get("resumeId"), None
    mapping = _mapping(row)
    if row.event_type == "hook_conflict":
        # A server writes it in place of the hook_created whose token is taken.
        data = mapping.get("eventData")
        conflicting_run_id = data.get("conflictingRunId") if isinstance(data, Mapping) else None
        token = data.get("token") if isinstance(data, Mapping) else None
        mapping = {**mapping, "eventType": "hook_created", "eventData": {"token": token}}
    try:
        event = parse_event(mapping)
    except InvalidEventError as error:
        raise RecordingError(row.path, f"cannot be posted: {error}", run_id=row.run_id) from None
    return Posting(
        event,
        row,
        resume_id=resume_id if isinstance(resume_id, str) and resume_id else None,
        conflicting_run_id=conflicting_run_id if isinstance(conflicting_run_id, str) else None,
    )


def _mapping(row: RecordedRow) -> dict[str, Any]:
    mapping = {
        name: row.fields[name]
        for name in ("eventType", "specVersion", "correlationId")
        if row.fields.get(name) is not None
    }
    if row.fields.get("createdAt") is not None:
        mapping["occurredAt"] = row.fields["createdAt"]
    data = row.fields.get("eventData")
    if data is not None:
        mapping["eventData"] = _with_bytes(data, row) if isinstance(data, Mapping) else data
    return mapping


def _with_bytes(data: Mapping[str, Any], row: RecordedRow) -> Mapping[str, Any]:
    """`data` with its payload unwrapped. Bytes occur nowhere else, and the rest is left as it is."""
    spec = EVENT_SPECS.get(row.event_type)
    name = spec.payload_field if spec else None
    payload = data.get(name) if name else None
    if name is None or not isinstance(payload, Mapping) or payload.get("__type") != "Uint8Array":
        return data
    content = payload.get("data")
    try:
        if isinstance(content, str):
            return {**data, name: base64.b64decode(content, validate=True)}
    except ValueError:
        pass
    raise RecordingError(row.path, f"eventData.{name} is no base64: restore the file", run_id=row.run_id)


def _missing_slots(rows: Iterable[RecordedRow]) -> tuple[tuple[int, int], ...]:
    gaps, below = [], 0
    for slot in sorted({slot for row in rows if (slot := slot_of(row.event_id)) is not None}):
        if slot > below + 1:
            gaps.append((below + 1, slot - 1))
        below = slot
    return tuple(gaps)
