"""What one event met, and the record of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, overload

from eventclient.errors import EventClientError, TransportError, rejection
from eventclient.telemetry.ledger import Ledger

from .entities import Hook, Run, Step, StoredEvent, Wait
from .event_specs import EVENT_SPECS, Entity
from .events import Event
from .results import Log, Result


class Outcome(StrEnum):
    """What an event met."""

    CREATED = "created"
    """Stored by this call."""
    ALREADY_APPLIED = "already_applied"
    """An earlier attempt of this very call, whose answer was lost, stored it: the log holds it."""
    CONFLICT = "conflict"
    """409: someone else's, or the entity is already in that state."""
    REJECTED = "rejected"
    """Refused for another reason; not stored."""
    UNKNOWN = "unknown"
    """It may have been stored, or may be yet: the answer was lost, and what became of it cannot be told."""
    UNSENT = "unsent"
    """Surely not stored: it was never sent, or every answer said that nothing was written."""


Persisted = Literal["yes", "no", "unknown"]
Via = Literal["batch", "single"]

PERSISTED: dict[Outcome, Persisted] = {
    Outcome.CREATED: "yes",
    Outcome.ALREADY_APPLIED: "yes",
    Outcome.CONFLICT: "no",
    Outcome.REJECTED: "no",
    Outcome.UNKNOWN: "unknown",
    Outcome.UNSENT: "no",
}

FAILURES = frozenset({Outcome.REJECTED, Outcome.UNKNOWN, Outcome.UNSENT})
"""The outcomes after which a caller has something to do. A conflict is ordinary and not among them."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of the request that carried an event.

    Attributes:
        number: 1-based.
        status: HTTP status of the answer; None when none came.
        wait_s: seconds waited before this try.
        elapsed_s: seconds from the start of this try to its end.
        cause: what ended it, in a few words (``"ok"``, ``"throttled"``, ``"connection lost"``).
    """

    number: int
    status: int | None
    wait_s: float
    elapsed_s: float
    cause: str


@dataclass(slots=True)
class Receipt:
    """What one submitted event met. To be read, not changed.

    Attributes:
        index: its position in the call.
        event: the event as submitted.
        outcome: see `Outcome`.
        result: what the server said of it; status, code, entities and the rest are read from here.
        via: whether it went by the batch route or as a single post; None when it was not sent.
        attempts: every try of the request that carried it.
        run_id: the run it was submitted to.
    """

    # Not frozen: a frozen dataclass takes three times as long to make, and one is made for every event.
    index: int
    event: Event
    outcome: Outcome
    result: Result = field(default=Result(None), repr=False)
    via: Via | None = None
    attempts: tuple[Attempt, ...] = field(default=(), repr=False)
    run_id: str = ""

    @property
    def status(self) -> int | None:
        """The event's own status (200, 409, ...); None when there was no answer."""
        return self.result.status

    @property
    def code(self) -> str | None:
        """The server's code, on a refusal."""
        return self.result.code

    @property
    def message(self) -> str | None:
        """Why, where the outcome is not ``created``."""
        return self.result.message

    @property
    def stored(self) -> StoredEvent | None:
        """The event as the server stored it."""
        return self.result.stored

    @property
    def run(self) -> Run | None:
        """The run, where the answer held it."""
        return self.result.run

    @property
    def step(self) -> Step | None:
        """The step, where the answer held it."""
        return self.result.step

    @property
    def hook(self) -> Hook | None:
        """The hook, where the answer held it."""
        return self.result.hook

    @property
    def wait(self) -> Wait | None:
        """The wait, where the answer held it."""
        return self.result.wait

    @property
    def step_created(self) -> bool:
        """Whether a lazy ``step_started`` created its step."""
        return self.result.step_created

    @property
    def max_events(self) -> int | None:
        """The most events the server allows on the run, where it said so."""
        return self.result.max_events

    @property
    def log(self) -> Log | None:
        """The log or the part of it that came along, for single posts that asked for it."""
        return self.result.log

    @property
    def persisted(self) -> Persisted:
        """Whether the event is in the log through this call: ``"yes"``, ``"no"`` or ``"unknown"``."""
        return PERSISTED[self.outcome]

    def error(self) -> EventClientError:
        """The typed error this receipt stands for, as `EventClient.create` raises it."""
        if self.outcome in (Outcome.UNKNOWN, Outcome.UNSENT):
            error: EventClientError = TransportError(
                self.message or f"{self.event.event_type} is {self.outcome}",
                ambiguous=self.outcome is Outcome.UNKNOWN,
                status=self.status,
                run_id=self.run_id,
                event_index=self.index,
            )
        else:
            error = rejection(
                self.status or 0,
                self.message or f"{self.event.event_type} was refused",
                code=self.code,
                hook=is_hook_delivery(self.event),
                run_id=self.run_id,
                event_index=self.index,
            )
        error.receipts = (self,)
        return error


def is_hook_delivery(event: Event) -> bool:
    """Whether a 404 of this event says that the hook is gone."""
    return EVENT_SPECS[event.event_type].entity is Entity.HOOK and event.event_type != "hook_created"


class BatchResult(Sequence[Receipt]):
    """One receipt per submitted event, in order, and what the call cost.

    Attributes:
        run_id: the run that was written.
        ledger: requests, bytes, seconds throttled and backed off, fallbacks.
    """

    __slots__ = ("_receipts", "ledger", "run_id")

    def __init__(self, run_id: str, receipts: Sequence[Receipt], ledger: Ledger) -> None:
        self.run_id = run_id
        self._receipts = tuple(receipts)
        self.ledger = ledger

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Receipt, ...]: ...
    def __getitem__(self, index: int | slice) -> Receipt | tuple[Receipt, ...]:
        return self._receipts[index]

    def __len__(self) -> int:
        return len(self._receipts)

    def __iter__(self) -> Iterator[Receipt]:
        return iter(self._receipts)

    def __repr__(self) -> str:
        counts = dict.fromkeys(Outcome, 0)
        for receipt in self._receipts:
            counts[receipt.outcome] += 1
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        return f"<BatchResult run {self.run_id}: {told or 'empty'}>"

    def _with(self, *outcomes: Outcome) -> tuple[Receipt, ...]:
        return tuple(receipt for receipt in self._receipts if receipt.outcome in outcomes)

    @property
    def created(self) -> tuple[Receipt, ...]:
        """Receipts of the events this call stored."""
        return self._with(Outcome.CREATED)

    @property
    def conflicts(self) -> tuple[Receipt, ...]:
        """Receipts of the events that met 409. A conflict is ordinary: someone was first."""
        return self._with(Outcome.CONFLICT)

    @property
    def failures(self) -> tuple[Receipt, ...]:
        """Receipts of the events that were rejected, are unknown or were not sent."""
        return self._with(*FAILURES)

    def raise_for_failures(self) -> None:
        """Raise the typed error of the first failure, with `.receipts` of the whole call; else nothing."""
        for receipt in self.failures:
            error = receipt.error()
            error.receipts = self._receipts
            raise error
