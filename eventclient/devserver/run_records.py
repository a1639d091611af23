"""Records of requests, and where those of one run stand among the events of its log."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from .account import EventAccount

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
RUN_WEIGHT: Final = 8
"""What it costs to keep a run, however little of it: about 2 KB, where a request or an event costs 0.3 KB."""


class Mark(StrEnum):
    """What makes a request stand out."""

    CONFLICT = "conflict"
    THROTTLED = "throttled"
    REFUSED = "refused"
    FAILED = "failed"
    DROPPED = "dropped"
    """The connection broke before there was a whole answer."""
    FAULT = "fault"


_OF_WRITES: Final = frozenset({Mark.CONFLICT, Mark.REFUSED, Mark.DROPPED})
"""What makes only a write stand out: a reader may ask for what is not there, and leave when it likes."""


@dataclass(slots=True, kw_only=True)
class Record:
    """What became of one request. Holds no payload, no token and no query.

    Attributes:
        number: 1-based, in the order in which the requests ended; 0 for one that is not kept.
        place: the highest slot of the run that was known when it ended; None when none was.
        at: when it began.
        duration_ms: how long it took; None when nobody saw it begin.
        path: with a name in place of whatever its caller chose: ``/runs/{runId}/events``.
        status: of the answer; None when no whole answer was sent.
        code: of the refusal.
        error: class of the exception that ended it.
        retry_after: what the answer said, as it was said.
        bytes_in: of the body of the request, as far as it came.
        bytes_out: of the answer, its head included.
        faults: what was injected.
        is_replayed: the answer was recorded under the request's key before.
    """

    at: datetime
    duration_ms: float | None
    method: str
    path: str
    route: str
    run_id: str | None
    status: int | None
    code: str | None = None
    error: str | None = None
    retry_after: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    events: tuple[EventAccount, ...] = ()
    faults: tuple[str, ...] = ()
    is_replayed: bool = False
    number: int = 0
    place: int | None = None

    @property
    def slots(self) -> list[int]:
        """Where its events stand, in their order."""
        return [event.slot for event in self.events if event.slot is not None]

    @property
    def delivery_count(self) -> int:
        """How often its events were handled: once, unless a fault repeated it."""
        return max((event.delivery for event in self.events), default=1)

    @property
    def is_batch(self) -> bool:
        """Whether several events came together."""
        return len(self.events) > 1 and max(Counter(event.delivery for event in self.events).values()) > 1

    @property
    def marks(self) -> dict[Mark, int]:
        """What makes it stand out, and how often it does so."""
        taken = self.status is not None and self.status < 400
        if taken and not self.faults and all(event.status < 400 for event in self.events):
            # Most requests are like this, and every one of them is asked.
            return {}
        marks = Counter(mark for event in self.events if (mark := _mark_of(event.status)) is not None)
        mark = Mark.DROPPED if self.status is None else _mark_of(self.status)
        is_ordinary = mark in _OF_WRITES and self.method in READS
        if mark is not None and not is_ordinary and (mark is Mark.DROPPED or not marks):
            marks[mark] += 1
        marks[Mark.FAULT] += len(self.faults)
        return {mark: marks[mark] for mark in Mark if marks[mark]}

    @property
    def weight(self) -> int:
        """What it costs to keep, beside what its run does."""
        return 1 + len(self.events)


def _mark_of(status: int) -> Mark | None:
    if status < 400:
        return None
    if status >= 500:
        return Mark.FAILED
    return {409: Mark.CONFLICT, 429: Mark.THROTTLED}.get(status, Mark.REFUSED)


class RunRecords:
    """What is kept of the requests of one run, oldest first. True while there is any."""

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._marked: deque[Record] = deque()
        self._by_slot: dict[int, Record] = {}
        self._first_slot: int | None = None
        self._last_slot: int | None = None
        self._tally: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._records)

    def add(self, record: Record) -> None:
        """Keep a record, and tell it its place."""
        for slot in record.slots:
            # A repeat is answered with the slot that an earlier request took.
            self._by_slot.setdefault(slot, record)
            if self._first_slot is None:
                self._first_slot = slot
            self._last_slot = max(self._last_slot or 0, slot)
        record.place = self._last_slot
        self._records.append(record)
        if record.marks:
            self._marked.append(record)
        self._tally.update(_tally_of(record))

    def forget_first(self) -> None:
        """Drop the oldest record."""
        record = self._records.popleft()
        if self._marked and self._marked[0] is record:
            self._marked.popleft()
        for slot in record.slots:
            if self._by_slot.get(slot) is record:
                del self._by_slot[slot]
        self._tally.subtract(_tally_of(record))

    def tally(self) -> Mapping[str, int]:
        """How many requests, how many of them with several events, and how many of each mark."""
        return +self._tally

    def since(self, number: int) -> list[Record]:
        """Records behind `number`."""
        found = []
        for record in reversed(self._records):
            if record.number <= number:
                break
            found.append(record)
        return found[::-1]

    def among(self, first: int, last: int, last_slot: int) -> list[Record]:
        """Records that belong to the slots from `first` to `last` of a log that ends at `last_slot`: those
        that wrote one, and the marked ones that stand among them. What was before slot 1 belongs to it."""
        found = {
            record.number: record
            for slot in range(first, last + 1)
            if (record := self._by_slot.get(slot)) is not None
        }
        floor = first if first > 1 else 0
        found |= {
            record.number: record
            for record in self.marked()
            if not record.slots and floor <= self.place_of(record, last_slot) <= last
        }
        return [found[number] for number in sorted(found)]

    def marked(self) -> Iterator[Record]:
        """Records that stand out."""
        return iter(self._marked)

    def place_of(self, record: Record, last_slot: int) -> int:
        """Where a record stands in a log that ends at `last_slot`: at the first slot that it wrote, else
        behind the slot told. What was recorded before anything was written stands before what was written
        then: the log is older than the records when the server has been started again."""
        if record.slots:
            return record.slots[0]
        if record.place is not None:
            return record.place
        return last_slot if self._first_slot is None else self._first_slot - 1


def _tally_of(record: Record) -> Counter[str]:
    tally: Counter[str] = Counter({mark.value: count for mark, count in record.marks.items()})
    tally["requests"] += 1
    tally["batches"] += record.is_batch
    return tally
