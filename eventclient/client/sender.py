"""The one retry loop, with the one sleep."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from eventclient.errors import (
    ConfigurationError,
    EventClientError,
    FirewallChallengeError,
    PreconditionFailedError,
    ProtocolError,
    ThrottleError,
    TransportError,
    rejection,
)
from eventclient.model.outcomes import Attempt
from eventclient.policy.classify import FailureClass, classify_answer
from eventclient.policy.retry import RetryState, Wait, decide
from eventclient.policy.throttle import ThrottleBudget
from eventclient.telemetry.ledger import LedgerBook
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.responses import decode_refusal
from eventclient.wire.retry_after import throttle_wait

from .options import ClientOptions
from .transport import Answer, Loss, Request, Transport

logger: Final = logging.getLogger("eventclient")
T = TypeVar("T")


@dataclass(slots=True)
class Purse:
    """The throttle budget a request draws on; several requests of one call may share it."""

    budget: ThrottleBudget


@dataclass(slots=True)
class Delivery:
    """What has happened to one request so far. It stays true at every await, cancellations included.

    Attributes:
        in_flight: an attempt is under way.
        maybe_landed: an attempt ended ambiguously, so the server may have acted.
    """

    attempts: list[Attempt] = field(default_factory=list)
    in_flight: bool = False
    maybe_landed: bool = False

    @property
    def uncertain(self) -> bool:
        """Whether the server may have acted without our knowing."""
        return self.in_flight or self.maybe_landed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request ended without a value.

    Attributes:
        asked_s: seconds the server asked to wait.
    """

    kind: FailureClass
    error: EventClientError
    status: int | None = None
    code: str | None = None
    asked_s: float = 0.0
    final: bool = False


@dataclass(frozen=True, slots=True)
class Success(Generic[T]):
    """What the answer held."""

    value: T


class Sender:
    """Sends requests, decides about their failures, waits, and sends again."""

    def __init__(self, transport: Transport, options: ClientOptions) -> None:
        self._transport = transport
        self._options = options
        self._clock = options.clock

    def purse(self) -> Purse:
        """A fresh throttle budget."""
        return Purse(ThrottleBudget(self._options.retry.throttle_budget_s))

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
            converges: whether sending it twice leaves the same log.
            is_read: whether it is a read.
            hook: whether a 404 says that a hook is gone.
        """
        state = RetryState(purse.budget)
        wait_s = 0.0
        while True:
            started = self._clock.now()
            delivery.in_flight = True
            book.requests += 1
            book.bytes += len(request.body or b"")
            reply = await self._transport.send(request)
            delivery.in_flight = False
            end = self._judge(reply, read, run_id=run_id, label=request.label, hook=hook, purse=purse)
            delivery.attempts.append(
                Attempt(
                    len(delivery.attempts) + 1,
                    reply.status,
                    wait_s,
                    self._clock.now() - started,
                    end.kind if isinstance(end, Failure) else "ok",
                )
            )
            if isinstance(end, Success):
                return end
            if end.kind is FailureClass.AMBIGUOUS:
                delivery.maybe_landed = True
            if end.final:
                return end
            decision = decide(
                end.kind,
                RetryState(purse.budget, state.retries),
                self._options.retry,
                read=is_read,
                converges=converges,
                asked_s=end.asked_s,
                jitter=self._clock.jitter(1.0),
            )
            if not isinstance(decision, Wait):
                return _explained(end, decision.reason, delivery)
            state, wait_s = decision.state, decision.delay_s
            purse.budget = state.budget
            throttled = end.kind is FailureClass.THROTTLED
            logger.log(
                logging.WARNING if throttled else logging.INFO,
                "%s of run %s was %s%s: attempt %d follows in %.2f s",
                request.label,
                run_id,
                end.kind,
                f" ({end.status})" if end.status else "",
                len(delivery.attempts) + 1,
                wait_s,
            )
            await self._clock.sleep(wait_s)
            if throttled:
                book.throttled_s += wait_s
            else:
                book.backoff_s += wait_s

    def _judge(
        self,
        reply: Answer | Loss,
        read: Callable[[Answer], T],
        *,
        run_id: str | None,
        label: str,
        hook: bool,
        purse: Purse,
    ) -> Success[T] | Failure:
        if isinstance(reply, Loss):
            kind = FailureClass.AMBIGUOUS if reply.sent else FailureClass.NOT_SENT
            lost = TransportError(
                f"{label}: {reply.cause}", ambiguous=reply.sent, status=reply.status, run_id=run_id
            )
            return Failure(kind, lost, reply.status)
        status, headers = reply.status, reply.headers
        challenged = headers.get(spec.HEADER_MITIGATED, "").strip().lower() == spec.MITIGATED_CHALLENGE
        failure = classify_answer(status, challenged=challenged)
        if failure is None:
            try:
                return Success(read(reply))
            except MalformedError as error:
                malformed = ProtocolError(f"{label}: {error}", status=status, run_id=run_id)
                return Failure(FailureClass.AMBIGUOUS, malformed, status)
            except ProtocolError as error:
                error.run_id, error.status = run_id, status
                return Failure(FailureClass.AMBIGUOUS, error, status, error.code, final=True)
        if failure is FailureClass.CHALLENGED:
            return Failure(failure, _challenge(label, status, run_id), status)
        if failure is FailureClass.REDIRECTED:
            return Failure(failure, _redirect(label, reply, run_id), status)
        return self._refused(failure, reply, run_id=run_id, label=label, hook=hook, budget=purse.budget)

    def _refused(
        self,
        kind: FailureClass,
        answer: Answer,
        *,
        run_id: str | None,
        label: str,
        hook: bool,
        budget: ThrottleBudget,
    ) -> Failure:
        status, headers = answer.status, answer.headers
        refusal = decode_refusal(headers.get("Content-Type", ""), answer.body)
        asked = headers.getall(spec.HEADER_RETRY_AFTER, [])
        asked_s = throttle_wait(asked, self._clock.wall()) if asked or status == 429 else 0.0
        message = f"{label}: {status}" + (f" {refusal.message}" if refusal.message else "")
        error: EventClientError
        if kind is FailureClass.THROTTLED:
            error = ThrottleError(
                f"{message}: the server asks to wait {asked_s:g} s; {budget.spent_s:.1f} s of a budget of"
                f" {budget.budget_s:g} s are spent. Nothing was written; send it again later",
                retry_after=asked_s,
                waited=budget.spent_s,
                budget=budget.budget_s,
                run_id=run_id,
            )
        elif kind is FailureClass.REFUSED:
            error = rejection(
                status,
                message,
                code=refusal.code,
                retry_after=asked_s if asked else None,
                hook=hook,
                run_id=run_id,
            )
            if isinstance(error, PreconditionFailedError):
                error.log = refusal.log
        else:
            error = TransportError(message, ambiguous=True, status=status, code=refusal.code, run_id=run_id)
        return Failure(kind, error, status, refusal.code, asked_s)


def _challenge(label: str, status: int, run_id: str | None) -> FirewallChallengeError:
    return FirewallChallengeError(
        f"{label}: {status}, a firewall challenge; a program cannot pass it. Allow-list this route",
        status=status,
        run_id=run_id,
    )


def _redirect(label: str, answer: Answer, run_id: str | None) -> ConfigurationError:
    # Query, fragment and user name may hold a secret of whoever redirects.
    location = answer.headers.get("Location", "").partition("?")[0].partition("#")[0]
    target = re.sub("//[^/]*@", "//", location) or "no address"
    return ConfigurationError(
        f"{label}: {answer.status} points to {target}. Redirects are not followed: name that server itself",
        run_id=run_id,
    )


def _explained(failure: Failure, reason: str, delivery: Delivery) -> Failure:
    """`failure` with the reason why it was final, and ambiguous if any attempt was."""
    error = failure.error
    if isinstance(error, TransportError | ProtocolError):
        error.message += f" (attempt {len(delivery.attempts)}; {reason})"
    if delivery.maybe_landed:
        if isinstance(error, TransportError):
            error.ambiguous = True
        elif isinstance(error, ThrottleError):
            error.message = error.message.replace(
                "Nothing was written; send it again later",
                "This answer wrote nothing, but an earlier attempt whose answer was lost may have",
            )
    return failure
