"""The one retry loop, with the one sleep."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from eventclient.model.outcomes import Attempt
from eventclient.policy.budget import Budget
from eventclient.policy.classify import FailureClass
from eventclient.policy.retry import RetryState, Wait, decide, fresh_state
from eventclient.telemetry.ledger import LedgerBook, Phase
from eventclient.wire import spec

from .options import ClientOptions
from .support import KeySupport, advertises
from .transport import Answer, Loss, Request, Transport, whole_or_lost
from .verdict import Failure, Judge, Success, explained

logger: Final = logging.getLogger("eventclient")
T = TypeVar("T")

_WAITS: Final = {FailureClass.THROTTLED: Phase.THROTTLED, FailureClass.PENDING: Phase.COLLECT}
"""What a wait counts as, by what is waited for; all else is backoff."""
_MAY_HAVE_LANDED: Final = frozenset({FailureClass.AMBIGUOUS, FailureClass.PENDING})
_BEHIND_THE_KEY: Final = frozenset({*range(200, 300), 409, 410, 412, 425})
"""What a server answers once it has looked the key up. All else may be said before that, of the caller, the
route or the moment, and then it says nothing of an attempt whose answer was lost."""


@dataclass(slots=True)
class Purse:
    """The throttle budget a request draws on; several requests of one call may share it."""

    budget: Budget


@dataclass(slots=True)
class Delivery:
    """What has happened to one request so far. It stays true at every await, cancellations included.

    Attributes:
        in_flight: an attempt is under way.
        maybe_landed: an attempt ended ambiguously or found the request still being executed, so the server
            may have acted.
        settled: the server had looked the key up for the last answer, so that it speaks for all attempts.
    """

    attempts: list[Attempt] = field(default_factory=list)
    in_flight: bool = False
    maybe_landed: bool = False
    settled: bool = False

    @property
    def uncertain(self) -> bool:
        """Whether the server may have acted without our knowing."""
        return self.in_flight or self.maybe_landed

    @property
    def doubtful(self) -> bool:
        """Whether what the last answer refused may be what an earlier attempt stored."""
        return self.maybe_landed and not self.settled


class Sender:
    """Sends requests, decides about their failures, waits, and sends again."""

    def __init__(self, transport: Transport, options: ClientOptions, support: KeySupport) -> None:
        self._transport = transport
        self._options = options
        self._clock = options.clock
        self._support = support

    def purse(self) -> Purse:
        """A fresh throttle budget."""
        return Purse(Budget(self._options.retry.throttle_budget_s))

    async def send(
        self,
        request: Request,
        read: Callable[[Answer], T],
        *,
        delivery: Delivery,
        purse: Purse,
        book: LedgerBook,
        run_id: str | None,
        converges: bool = True,
        is_read: bool = False,
        hook: bool = False,
    ) -> Success[T] | Failure:
        """Send `request` until it is answered, refused or given up.

        Args:
            read: takes the value out of a 2xx answer; raises MalformedError when it is unreadable, which
                is ambiguous, or ProtocolError when the server itself says it cannot answer.
            delivery: kept up to date at every step.
            purse: what throttle waits are paid from.
            book: what the requests and waits are written into.
            converges: whether sending it twice leaves the same log, also where no keys are kept.
            is_read: whether it is a read.
            hook: whether a 404 says that a hook is gone.
        """
        judge = Judge(request, run_id, hook)
        state: RetryState | None = None
        first: Failure | None = None
        wait_s = 0.0
        while True:
            delivery.in_flight = True
            book.requests += 1
            book.bytes += len(request.body or b"")
            started = book.enter(Phase.WIRE)
            try:
                reply = whole_or_lost(await self._transport.send(request))
            finally:
                ended = book.leave(Phase.WIRE)
            end = judge.judge(reply, read, purse.budget, self._clock.wall)
            delivery.settled = self._settles(reply, end)
            delivery.in_flight = False
            kind = end.kind if isinstance(end, Failure) else "ok"
            delivery.attempts.append(
                Attempt(len(delivery.attempts) + 1, reply.status, wait_s, ended - started, kind)
            )
            if isinstance(end, Success):
                return end
            if end.kind in _MAY_HAVE_LANDED:
                delivery.maybe_landed = True
            if end.final:
                return end
            if first is not None and end.key_was_lost:
                return _first_kept(first, end, delivery)
            if first is None or (end.kind in _MAY_HAVE_LANDED and first.kind not in _MAY_HAVE_LANDED):
                # Of several failures the one that leaves the end open is what became of the write.
                first = end
            # Most requests never fail, so the state is made for those that do. Others of the same call may
            # have drawn on the purse meanwhile.
            state = state or fresh_state(self._options.retry, purse.budget)
            state = state.drawing_on(purse.budget)
            decision = decide(
                end.kind,
                state,
                self._options.retry,
                read=is_read,
                # Under a key that is kept any event may be sent twice.
                safe=converges or bool(self._support.known),
                asked_s=end.asked_s,
                elapsed_s=self._clock.now() - started,
                jitter=self._clock.jitter(1.0),
            )
            if not isinstance(decision, Wait):
                return _explained(end, decision.reason, delivery)
            state, wait_s = decision.state, decision.delay_s
            if end.kind is FailureClass.THROTTLED:
                purse.budget = state.throttle
            _log_wait(request, run_id, end, len(delivery.attempts) + 1, wait_s)
            phase = _WAITS.get(end.kind, Phase.BACKOFF)
            book.enter(phase)
            try:
                await self._clock.sleep(wait_s)
            finally:
                book.leave(phase)

    def _settles(self, reply: Answer | Loss, end: Success[T] | Failure) -> bool:
        """Whether `reply` speaks for every attempt of its request; notes what it says about keys."""
        advertised = advertises(reply)
        if isinstance(reply, Loss):
            self._support.learn(advertised=advertised, own=False)
            return False
        conflict = isinstance(end, Failure) and end.kind is FailureClass.REFUSED and end.status == 409
        self._support.learn(advertised=advertised, own=isinstance(end, Success) or conflict)
        if not advertised:
            return False
        if spec.HEADER_KEY in reply.headers:
            self._support.names = True
            return True
        if spec.HEADER_KEY_REPLAYED in reply.headers:
            return True
        return reply.status in _BEHIND_THE_KEY and not self._support.names


def _first_kept(first: Failure, lost_key: Failure, delivery: Delivery) -> Failure:
    """The first failure, where the server lost the key meanwhile and so cannot say what became of it."""
    reason = "sent again, it met a server that holds its key for another request"
    first.error.__context__ = lost_key.error
    return _explained(first, reason, delivery)


def _explained(failure: Failure, reason: str, delivery: Delivery) -> Failure:
    return explained(failure, reason, attempts=len(delivery.attempts), maybe_landed=delivery.maybe_landed)


def _log_wait(request: Request, run_id: str | None, end: Failure, attempt: int, wait_s: float) -> None:
    logger.log(
        logging.WARNING if end.kind is FailureClass.THROTTLED else logging.INFO,
        "%s of run %s was %s%s: attempt %d follows in %.2f s",
        request.label,
        run_id,
        end.kind,
        f" ({end.status})" if end.status else "",
        attempt,
        wait_s,
    )
