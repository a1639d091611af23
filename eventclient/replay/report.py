"""What a replay met: every event's end, and the sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from eventclient.errors import EventClientError
from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import payload_of
from eventclient.model.ids import slot_of
from eventclient.model.outcomes import Outcome, Receipt
from eventclient.recordings.order import Posting, RunPlan


class Verdict(StrEnum):
    """What an event's end means for the replay."""

    APPLIED = "applied"
    EXPECTED = "expected"
    """Refused, as the recording foretold."""
    DIFFERING = "differing"
    """Stored, and not as it was recorded."""
    CONFLICT = "conflict"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    UNSENT = "unsent"


_BY_OUTCOME = {
    Outcome.CREATED: Verdict.APPLIED,
    Outcome.ALREADY_APPLIED: Verdict.APPLIED,
    Outcome.CONFLICT: Verdict.CONFLICT,
    Outcome.REJECTED: Verdict.REFUSED,
    Outcome.UNKNOWN: Verdict.UNKNOWN,
    Outcome.UNSENT: Verdict.UNSENT,
}


@dataclass(frozen=True, slots=True)
class Settled:
    """One event's end.

    Attributes:
        run_id, index: the run it was posted to and its place among the run's events, from 0.
        recorded_event_id: what it was recorded as.
        event_type: what was posted.
        outcome, status, code, message: as in its `Receipt`.
        verdict: what that means for the replay.
        stored_event_id: what the server stored it as.
        difference: how the stored event differs from the recorded one.
    """

    run_id: str
    index: int
    recorded_event_id: str
    event_type: str
    outcome: Outcome
    status: int | None
    verdict: Verdict
    code: str | None = None
    message: str | None = None
    stored_event_id: str | None = None
    difference: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a replay or of one of its runs.

    Attributes:
        events: how many were to be posted.
        requests: HTTP requests it took, retries included.
        created: stored by this replay, those that differ included.
        already_applied: refused because an earlier attempt of ours had stored them.
        conflicts: refused with 409, and not expected.
        expected: refused as the recording foretold.
        refused: refused for another reason.
        unknown, unsent: may have been stored; surely were not.
        differing: stored, and not as recorded.
        skipped: recorded rows that are not posted.
        seconds, throttled_seconds: how long it took, and how much of it was waiting on 429.
    """

    events: int = 0
    requests: int = 0
    created: int = 0
    already_applied: int = 0
    conflicts: int = 0
    expected: int = 0
    refused: int = 0
    unknown: int = 0
    unsent: int = 0
    differing: int = 0
    skipped: int = 0
    seconds: float = 0.0
    throttled_seconds: float = 0.0

    @property
    def events_per_request(self) -> float:
        """Events that were sent for each request that was; 0 when none was."""
        return (self.events - self.unsent) / self.requests if self.requests else 0.0

    @property
    def applied(self) -> bool:
        """Whether every event is stored as recorded, but for refusals that were expected."""
        return not (self.conflicts or self.refused or self.unknown or self.unsent or self.differing)


@dataclass(slots=True)
class RunReport:
    """One run of a replay, while it lasts and after it."""

    plan: RunPlan
    settled: list[Settled] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    throttled_seconds: float = 0.0

    @property
    def totals(self) -> Totals:
        """The run's sums. Events that have no end yet are unsent."""
        counts = dict.fromkeys(Verdict, 0)
        for item in self.settled:
            counts[item.verdict] += 1
        own = sum(item.outcome is Outcome.ALREADY_APPLIED for item in self.settled)
        return Totals(
            events=len(self.plan.postings),
            requests=self.requests,
            created=counts[Verdict.APPLIED] + counts[Verdict.DIFFERING] - own,
            already_applied=own,
            conflicts=counts[Verdict.CONFLICT],
            expected=counts[Verdict.EXPECTED],
            refused=counts[Verdict.REFUSED],
            unknown=counts[Verdict.UNKNOWN],
            unsent=counts[Verdict.UNSENT] + len(self.plan.postings) - len(self.settled),
            differing=counts[Verdict.DIFFERING],
            skipped=len(self.plan.skipped),
            seconds=self.seconds,
            throttled_seconds=self.throttled_seconds,
        )


@dataclass(slots=True)
class ReplayReport:
    """A whole replay.

    Attributes:
        runs: one report per planned run, in order.
        stopped: the error that ended it early.
    """

    runs: list[RunReport]
    stopped: EventClientError | None = None

    @property
    def totals(self) -> Totals:
        """The sums of all runs."""
        return add_totals(run.totals for run in self.runs)


def add_totals(parts: Iterable[Totals]) -> Totals:
    """The sum of `parts`, field by field."""
    rows = [tuple(getattr(part, name) for name in Totals.__slots__) for part in parts]
    return Totals(*(sum(column) for column in zip(*rows, strict=True)))


def settle(run_id: str, index: int, posting: Posting, receipt: Receipt) -> Settled:
    """What `receipt` says about `posting`, the run's event number `index`."""
    verdict, difference = _BY_OUTCOME[receipt.outcome], None
    stored = receipt.stored
    if verdict in (Verdict.CONFLICT, Verdict.REFUSED) and receipt.status in posting.expected:
        verdict = Verdict.EXPECTED
    elif stored is not None and receipt.status == 200:
        # A hook_conflict is answered with 200 and stored: what it means is told by what was recorded.
        difference = _difference(posting, stored)
        verdict = Verdict.APPLIED if difference is None else Verdict.DIFFERING
    return Settled(
        run_id,
        index,
        posting.row.event_id,
        receipt.event.event_type,
        receipt.outcome,
        receipt.status,
        verdict,
        receipt.code,
        receipt.message,
        None if stored is None else stored.event_id,
        difference,
    )


def _difference(posting: Posting, stored: StoredEvent) -> str | None:
    recorded = posting.row
    if stored.event_type != recorded.event_type:
        return f"recorded as {recorded.event_type}, stored as {stored.event_type}"
    if slot_of(recorded.event_id) is not None and slot_of(stored.event_id) is None:
        return "recorded under a slot, stored under an id that is none"
    if stored.payload is not None and stored.payload != payload_of(posting.event):
        return "the stored payload is another"
    holder = (stored.event_data or {}).get("conflictingRunId")
    if posting.conflicting_run_id is not None and holder not in (None, posting.conflicting_run_id):
        return "the token is held by another run than in the recording"
    return None
