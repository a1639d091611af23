"""What callers submitted, and what they were told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from eventclient import Event, EventClientError, Receipt, StoredEvent
from eventclient.telemetry.ledger import Ledger


class Way(StrEnum):
    """How a call writes."""

    CREATE = "create"
    BATCH = "create_batch"
    WRITER = "writer.create"


@dataclass(slots=True, eq=False)
class Submission:
    """One event of one call.

    Attributes:
        number: tells it from every other one; in its payload or its ``occurredAt``.
        receipt: what the caller was told; None until then.
    """

    number: int
    event: Event
    receipt: Receipt | None = None

    def __str__(self) -> str:
        return f"event {self.number} ({self.event.event_type} {self.event.correlation_id})"


@dataclass(slots=True, eq=False)
class Call:
    """One call of a caller.

    Attributes:
        concurrency: of a batch.
        began: the how manyth call it was to begin, of all callers; 0 until it has.
        began_s, ended_s: virtual time.
        is_cancelled: the caller gave up.
        error: what the call raised, but for a cancellation.
        ledger: what it cost, where the caller was told.
        has_seen_support: an answer had told the client, before the call ended, that keys are honoured.
    """

    number: int
    caller: str
    way: Way
    run_id: str
    submissions: Sequence[Submission]
    concurrency: int = 1
    began: int = 0
    began_s: float = 0.0
    ended_s: float | None = None
    is_cancelled: bool = False
    error: EventClientError | None = None
    ledger: Ledger | None = None
    has_seen_support: bool = False

    def take(self, receipts: Sequence[Receipt]) -> None:
        """Note what the caller was told."""
        for submission, receipt in zip(self.submissions, receipts, strict=True):
            submission.receipt = receipt

    def __str__(self) -> str:
        return f"call {self.number} of {self.caller} ({self.way}, run {self.run_id[-2:]})"


@dataclass(slots=True, eq=False)
class Reading:
    """A log as a caller read it."""

    run_id: str
    began_s: float
    events: Sequence[StoredEvent]


@dataclass(slots=True)
class Book:
    """Everything that was submitted and read in a world.

    Attributes:
        left: what closing the client returned.
        is_closed_early: the client was closed while calls were under way.
    """

    calls: list[Call] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    left: list[Receipt] = field(default_factory=list)
    is_closed_early: bool = False
