"""When an outcome may be unknown.

With keys: never in a gentle world, unless the caller gave up or the client was closed. In a rough one a
request must have used up what it was given: its retries, one of its budgets, or the collecting that is
switched off. Before any answer has told that keys are honoured, an event that does not converge may stay
unknown as without keys.

Without keys, in a gentle world: only where an event that may have travelled along does not converge, where
what came behind a lost answer was a refusal other than 409, which no reading can settle, where the event
has no payload to tell it from another of its kind, or where the run has ended, which explains a 409 and is
not among the events of one correlation id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from eventclient import Outcome, Receipt
from eventclient.model.event_specs import EVENT_SPECS, Convergence
from eventclient.policy.classify import FailureClass

from .events import payload_of_stored
from .network import MAX_ASKED_S
from .plan import Plan
from .submission import Book, Call, Submission, Way

RUN_ENDS = frozenset({"run_completed", "run_failed", "run_cancelled"})
_TRANSIENT = frozenset({FailureClass.AMBIGUOUS, FailureClass.NOT_SENT})


def needless_unknowns(plan: Plan, book: Book, ended: Collection[str]) -> Iterator[str]:
    """Events whose outcome should have become known; `ended` are the runs that have."""
    for call in book.calls:
        if call.is_cancelled or (book.is_closed_early and call.error is not None):
            continue
        for one in call.submissions:
            receipt = one.receipt
            if receipt is None or receipt.outcome is not Outcome.UNKNOWN:
                continue
            if not plan.honours_keys and call.run_id in ended and receipt.status == 409:
                continue
            if not _is_excused(plan, book, call, one, receipt):
                attempts = ", ".join(f"{attempt.cause} {attempt.status}" for attempt in receipt.attempts)
                yield f"{one} of {call} is unknown without need: {attempts}; {receipt.message}"


def _is_excused(plan: Plan, book: Book, call: Call, one: Submission, receipt: Receipt) -> bool:
    if plan.honours_keys:
        return not plan.is_gentle and _is_spent(plan, call, receipt)
    if not plan.is_gentle:
        return True
    if any(not _converges(other) for other in _company(book, call)) or not payload_of_stored(one.event):
        return True
    return receipt.status is not None and 400 <= receipt.status < 500 and receipt.status != 409


def _is_spent(plan: Plan, call: Call, receipt: Receipt) -> bool:
    retry, attempts = plan.retry, receipt.attempts
    if not attempts:
        return False
    last = attempts[-1].cause
    transient = [attempt for attempt in attempts if attempt.cause in _TRANSIENT]
    spent_s = sum(attempt.elapsed_s + attempt.wait_s for attempt in attempts)
    if len(transient) > retry.transient_retries:
        return True
    if last == FailureClass.THROTTLED:
        throttled_s = sum(
            following.wait_s
            for attempt, following in pairwise(attempts)
            if attempt.cause == FailureClass.THROTTLED
        )
        return throttled_s + MAX_ASKED_S + 0.3 > retry.throttle_budget_s
    if last == FailureClass.PENDING:
        return not retry.collect or spent_s + 1.3 > retry.collect_budget_s
    if last in _TRANSIENT and spent_s + 0.3 > retry.fast_budget_s:
        return True
    if last == "ok":
        # The start of a run is answered with its log, the rest of which could not be read.
        return receipt.event.event_type == "run_started"
    return last in _TRANSIENT and not call.has_seen_support


def _company(book: Book, call: Call) -> Iterator[Submission]:
    """What may have been in one request with the events of `call`."""
    if call.way is not Way.WRITER:
        yield from call.submissions
        return
    for other in book.calls:
        if other.way is Way.WRITER and other.run_id == call.run_id:
            yield from other.submissions


def _converges(one: Submission) -> bool:
    return EVENT_SPECS[one.event.event_type].converges is Convergence.ALWAYS
