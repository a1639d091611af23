"""From results and failures to receipts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from eventclient.model.events import Event
from eventclient.model.outcomes import Outcome, Receipt, Via
from eventclient.model.results import Result
from eventclient.policy.classify import FailureClass

from .sender import Delivery
from .verdict import Failure


def single_answered(run_id: str, index: int, event: Event, result: Result, delivery: Delivery) -> Receipt:
    """The receipt of an event whose single post the server answered with success."""
    stored = result.stored
    # A hook token that is held by another run is answered with 200 and a hook_conflict event.
    same = stored is None or stored.event_type == event.event_type
    outcome = Outcome.CREATED if same else Outcome.CONFLICT
    return Receipt(index, event, outcome, result, "single", tuple(delivery.attempts), run_id)


def batch_answered(
    run_id: str, start: int, events: Sequence[Event], results: Sequence[Result], delivery: Delivery
) -> list[Receipt]:
    """The receipts of a batch the server answered; `start` is the index of its first event in the call."""
    attempts, doubtful = tuple(delivery.attempts), delivery.doubtful
    return [
        Receipt(
            index,
            event,
            Outcome.CREATED if result.status == 200 else _refused(result.status or 0, doubtful),
            result,
            "batch",
            attempts,
            run_id,
        )
        for index, event, result in zip(count(start), events, results, strict=False)
    ]


def _refused(status: int, doubtful: bool) -> Outcome:
    # An attempt that may have landed can be what the later one was refused for.
    if doubtful or status >= 500:
        return Outcome.UNKNOWN
    return Outcome.CONFLICT if status == 409 else Outcome.REJECTED


def failed(run_id: str, index: int, event: Event, failure: Failure, via: Via, delivery: Delivery) -> Receipt:
    """The receipt of an event whose request failed as a whole."""
    if failure.kind is FailureClass.REFUSED:
        outcome = _refused(failure.status or 0, delivery.doubtful)
    else:
        outcome = Outcome.UNKNOWN if delivery.maybe_landed else Outcome.UNSENT
    result = Result(failure.status, failure.code, failure.error.message)
    return Receipt(index, event, outcome, result, via, tuple(delivery.attempts), run_id)


def abandoned(run_id: str, index: int, event: Event, via: Via, delivery: Delivery) -> Receipt:
    """The receipt of an event whose request was broken off from outside."""
    uncertain = delivery.uncertain
    outcome = Outcome.UNKNOWN if uncertain else Outcome.UNSENT
    told = "broken off while its answer was awaited" if uncertain else "broken off before it was sent"
    return Receipt(index, event, outcome, Result(None, None, told), via, tuple(delivery.attempts), run_id)


def unsent(run_id: str, index: int, event: Event) -> Receipt:
    """The receipt of an event that was never sent."""
    told = Result(None, None, "not sent: the call ended before its turn")
    return Receipt(index, event, Outcome.UNSENT, told, run_id=run_id)


def not_started(run_id: str, index: int, event: Event, create: Receipt) -> Receipt:
    """The receipt of a start that was not sent because its `create` is not known to be ours."""
    # Where it is not known whose the create is, the start is neither taken nor given up.
    outcome = Outcome.CONFLICT if create.outcome is Outcome.CONFLICT else Outcome.UNSENT
    told = f"not sent: its step_created is {create.outcome}"
    return Receipt(index, event, outcome, Result(create.status, create.code, told), run_id=run_id)


def completed(
    run_id: str, events: Sequence[Event], receipts: Sequence[Receipt | None]
) -> tuple[Receipt, ...]:
    """`receipts` with every event that has none yet as unsent."""
    return tuple(
        receipt if receipt is not None else unsent(run_id, index, events[index])
        for index, receipt in enumerate(receipts)
    )
