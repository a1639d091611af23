"""From results and failures to receipts."""

from __future__ import annotations

from collections.abc import Sequence

from eventclient.model.events import Event
from eventclient.model.outcomes import Attempt, Outcome, Receipt, Via
from eventclient.policy.classify import FailureClass
from eventclient.wire.responses import Result

from .sender import Delivery, Failure


def answered(
    run_id: str,
    index: int,
    event: Event,
    result: Result,
    via: Via,
    attempts: tuple[Attempt, ...],
    landed: bool,
) -> Receipt:
    """The receipt of an event the server answered for.

    `landed` says that an earlier attempt of the same request may have stored it.
    """
    status = result.status
    stored = result.stored
    if status != 200:
        outcome = _refused(status, landed)
    elif stored is not None and stored.event_type != event.event_type:
        # A hook token that is held by another run is answered with 200 and a hook_conflict event.
        outcome = Outcome.CONFLICT
    else:
        outcome = Outcome.CREATED
    return Receipt(
        index,
        event,
        outcome,
        status,
        result.code,
        result.message,
        stored,
        result.run,
        result.step,
        result.hook,
        result.wait,
        via,
        attempts,
        result.step_created,
        result.max_events,
        result.log,
        run_id,
    )


def _refused(status: int, landed: bool) -> Outcome:
    if status == 409:
        return Outcome.ALREADY_APPLIED if landed else Outcome.CONFLICT
    # An attempt that may have landed can be what the later one was refused for.
    return Outcome.UNKNOWN if landed or status >= 500 else Outcome.REJECTED


def failed(run_id: str, index: int, event: Event, failure: Failure, via: Via, delivery: Delivery) -> Receipt:
    """The receipt of an event whose request failed as a whole."""
    if failure.kind is FailureClass.REFUSED:
        outcome = _refused(failure.status or 0, delivery.maybe_landed)
    elif delivery.maybe_landed:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.UNSENT
    return Receipt(
        index,
        event,
        outcome,
        failure.status,
        failure.code,
        failure.error.message,
        via=via,
        attempts=tuple(delivery.attempts),
        run_id=run_id,
    )


def abandoned(run_id: str, index: int, event: Event, via: Via, delivery: Delivery) -> Receipt:
    """The receipt of an event whose request was broken off from outside."""
    uncertain = delivery.uncertain
    return Receipt(
        index,
        event,
        Outcome.UNKNOWN if uncertain else Outcome.UNSENT,
        message="broken off while its answer was awaited" if uncertain else "broken off before it was sent",
        via=via,
        attempts=tuple(delivery.attempts),
        run_id=run_id,
    )


def unsent(run_id: str, index: int, event: Event) -> Receipt:
    """The receipt of an event that was never sent."""
    return Receipt(
        index, event, Outcome.UNSENT, message="not sent: the call ended before its turn", run_id=run_id
    )


def completed(
    run_id: str, events: Sequence[Event], receipts: Sequence[Receipt | None]
) -> tuple[Receipt, ...]:
    """`receipts` with every event that has none yet as unsent."""
    return tuple(
        receipt if receipt is not None else unsent(run_id, index, events[index])
        for index, receipt in enumerate(receipts)
    )
