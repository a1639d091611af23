"""What must hold at the end of a seed: the servers' own logs against what callers were told.

* An event that was acknowledged is in the log exactly once, and its receipt names its row.
* No event is in the log twice, whatever its outcome; one that met a conflict, was rejected or was not sent is
  not in it at all.
* Every row is somebody's event. Logs are dense, and each row is legal where it stands.
* What was acknowledged before a call began stands before what that call wrote. Within a call without
  concurrency, and among the acknowledged events of a writer, rows stand in the order of the events.
* A log that was read is a beginning of the log, and holds what had been acknowledged before.
* Every call ends, and tells what became of each of its events. Closing returns what is not confirmed.
* The parts of a ledger add up to the time of the call, and none of it is spent on anything but requests and
  waits: on this clock our own work takes no time.
* An outcome is unknown only where it had to be; see `unknowns`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from eventclient import Outcome, Receipt, StoredEvent
from eventclient.devserver.state import LogRow
from eventclient.model.ids import slot_of

from .events import LAZY_INPUT, payload_of_stored
from .history import illegal_rows
from .plan import Plan
from .submission import Book, Call, Submission, Way
from .unknowns import RUN_ENDS, needless_unknowns

Logs = dict[str, list[LogRow]]
ACKNOWLEDGED = frozenset({Outcome.CREATED, Outcome.ALREADY_APPLIED})
TOLERANCE_S: Final = 1e-6
OPEN = frozenset({Outcome.UNKNOWN, Outcome.UNSENT})


@dataclass(frozen=True, slots=True)
class Told:
    """A submission, its call, and the slots of its rows."""

    call: Call
    submission: Submission
    receipt: Receipt
    slots: tuple[int, ...]

    @property
    def is_acknowledged(self) -> bool:
        return self.receipt.outcome in ACKNOWLEDGED

    def __str__(self) -> str:
        outcome = self.receipt.outcome.value
        return f"{self.submission} of {self.call}, which is {outcome}"


def judge(plan: Plan, book: Book, logs: Logs) -> Iterator[str]:
    """Everything that does not hold, in words."""
    events = {run_id: [row.event() for row in rows] for run_id, rows in logs.items()}
    yield from _unfinished(book)
    slots: dict[Submission, list[int]] = defaultdict(list)
    yield from _match(book, events, slots)
    told = [
        Told(call, one, one.receipt, tuple(slots[one]))
        for call in book.calls
        for one in call.submissions
        if one.receipt is not None
    ]
    yield from _outcomes(told)
    for call in book.calls:
        for one in call.submissions:
            if one.receipt is None and slots[one]:
                yield f"{one} of {call} is in the log, and was never told of"
    for run_id, rows in events.items():
        yield from illegal_rows(run_id, rows)
        yield from _order([one for one in told if one.call.run_id == run_id])
    yield from _readings(book, events, told)
    yield from _left(book)
    yield from _ledgers(book)
    ended = {run_id for run_id, rows in events.items() if any(row.event_type in RUN_ENDS for row in rows)}
    yield from needless_unknowns(plan, book, ended)


def _unfinished(book: Book) -> Iterator[str]:
    for call in book.calls:
        if call.began and call.ended_s is None:
            yield f"{call} never ended"
        elif call.began and any(one.receipt is None for one in call.submissions):
            yield f"{call} did not tell what became of its events"


def _match(
    book: Book, events: Mapping[str, Sequence[StoredEvent]], slots: dict[Submission, list[int]]
) -> Iterator[str]:
    """Find the submission of each row."""
    known: dict[tuple[str, str, str | None, datetime | bytes], Submission] = {}
    for call in book.calls:
        for one in call.submissions:
            event = one.event
            mark = event.occurred_at or payload_of_stored(event)
            known[call.run_id, event.event_type, event.correlation_id, mark] = one
    for run_id, rows in events.items():
        for row in rows:
            if row.payload == LAZY_INPUT:
                # The creation that a lazy start brings along, in a row of its own.
                yield from _lazy_creation(row, rows)
                continue
            name = run_id, row.event_type, row.correlation_id
            writer = known.get((*name, row.created_at)) or known.get((*name, row.payload or b""))
            if writer is None:
                yield f"nobody wrote {row.event_id} of run {run_id}: {row.event_type}"
                continue
            if (row.payload or b"") != payload_of_stored(writer.event):
                yield f"{row.event_id} of run {run_id} has another payload than {writer}"
            slots[writer].append(slot_of(row.event_id) or 0)


def _lazy_creation(row: StoredEvent, rows: Sequence[StoredEvent]) -> Iterator[str]:
    start = rows[at] if (at := slot_of(row.event_id) or 0) < len(rows) else None
    if start is None or (start.event_type, start.correlation_id, start.created_at) != (
        "step_started",
        row.correlation_id,
        row.created_at,
    ):
        yield f"{row.event_id} of run {row.run_id} is created by a start that is not behind it"


def _outcomes(told: Sequence[Told]) -> Iterator[str]:
    for one in told:
        count = len(one.slots)
        if count > 1:
            yield f"{one} is in the log {count} times: {one.slots}"
        elif one.is_acknowledged and not count:
            yield f"{one} is not in the log"
        elif count and not one.is_acknowledged and one.receipt.outcome is not Outcome.UNKNOWN:
            yield f"{one} is in the log: {one.slots}"
        stored = one.receipt.stored
        if one.is_acknowledged and stored is None:
            yield f"{one} has no stored event"
        elif one.is_acknowledged and stored is not None and slot_of(stored.event_id) not in one.slots:
            yield f"{one} stands in {one.slots}, its receipt says {stored.event_id}"


def _order(told: Sequence[Told]) -> Iterator[str]:
    """`told` is of one run."""
    landed = sorted((one for one in told if one.slots), key=lambda one: one.slots[0])
    latest_begun: Told | None = None
    for one in landed:
        ended_s = one.call.ended_s
        if (
            latest_begun is not None
            and one.is_acknowledged
            and ended_s is not None
            and ended_s < latest_begun.call.began_s
        ):
            yield f"{one} was acknowledged before {latest_begun} was asked for, and stands behind it"
        if latest_begun is None or one.call.began_s > latest_begun.call.began_s:
            latest_begun = one
    yield from _order_of_calls(landed)
    writers = [one for one in landed if one.call.way is Way.WRITER and one.is_acknowledged]
    for first, second in pairwise(writers):
        if first.call.began > second.call.began:
            yield f"{first} was given to the writer after {second}, and stands before it"


def _order_of_calls(landed: Sequence[Told]) -> Iterator[str]:
    latest: dict[Call, Told] = {}
    for one in landed:
        if one.call.concurrency > 1:
            continue
        before = latest.get(one.call)
        if before is not None and before.submission.number > one.submission.number:
            yield f"{one} stands behind {before}"
        latest[one.call] = one


def _readings(book: Book, events: Mapping[str, Sequence[StoredEvent]], told: Sequence[Told]) -> Iterator[str]:
    for reading in book.readings:
        log = events[reading.run_id]
        if [event.event_id for event in reading.events] != [
            event.event_id for event in log[: len(reading.events)]
        ]:
            yield f"a reading of run {reading.run_id} is no beginning of its log"
        for one in told:
            if (
                one.call.run_id == reading.run_id
                and one.is_acknowledged
                and one.call.ended_s is not None
                and one.call.ended_s < reading.began_s
                and one.slots
                and one.slots[0] > len(reading.events)
            ):
                yield f"{one} is missing in a later reading"


def _left(book: Book) -> Iterator[str]:
    """Closing returns what cancelled calls left open, and nothing that was settled."""
    by_event = {id(one.event): (call, one) for call in book.calls for one in call.submissions}
    returned = set()
    for receipt in book.left:
        call, one = by_event[id(receipt.event)]
        returned.add(one)
        if receipt.outcome not in OPEN:
            yield f"closing returned {one} of {call}, which is {receipt.outcome}"
        if one.receipt is not None and one.receipt.outcome not in OPEN:
            yield f"closing returned {one} of {call}, which was told to be {one.receipt.outcome}"
    for call in book.calls:
        if call.way is Way.WRITER or not call.is_cancelled or call.error is not None:
            continue
        for one in call.submissions:
            if one.receipt is not None and one.receipt.outcome in OPEN and one not in returned:
                yield f"closing did not return {one} of {call}, which is {one.receipt.outcome}"


def _ledgers(book: Book) -> Iterator[str]:
    for call in book.calls:
        ledger = call.ledger
        if ledger is None or call.ended_s is None:
            continue
        waits_s = ledger.throttled_s + ledger.backoff_s + ledger.collect_s + ledger.queued_s
        wall_s = call.ended_s - call.began_s
        if abs(ledger.wire_s + waits_s - wall_s) > TOLERANCE_S or abs(ledger.wall_s - wall_s) > TOLERANCE_S:
            yield f"the ledger of {call} does not add up to {wall_s:.6f} s: {ledger}"
