"""What a reply is: a value, or a failure with its typed error."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Generic, NoReturn, TypeVar

from eventclient.errors import (
    ConfigurationError,
    EventClientError,
    FirewallChallengeError,
    PreconditionFailedError,
    ProtocolError,
    RejectedError,
    ThrottleError,
    TransportError,
    rejection,
)
from eventclient.policy.budget import Budget
from eventclient.policy.classify import NO_CODES, FailureClass, classify_answer
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.responses import Refusal, decode_refusal
from eventclient.wire.retry_after import read_pace, throttle_wait

from .support import is_challenge
from .transport import Answer, Loss, Request

T = TypeVar("T")

_PENDING_CODES: Final = MappingProxyType({504: spec.CODE_DEADLINE_EXCEEDED, 409: spec.CODE_IN_PROGRESS})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request ended without a value.

    Attributes:
        asked_s: seconds the server asked to wait; None when it named none that can be read.
        final: never to be sent again, whatever its kind.
    """

    kind: FailureClass
    error: EventClientError
    status: int | None = None
    code: str | None = None
    asked_s: float | None = None
    final: bool = False

    @property
    def key_was_lost(self) -> bool:
        """Whether the server holds the request's key for another one's."""
        return self.status == 422 and self.code == spec.CODE_KEY_REUSE


@dataclass(frozen=True, slots=True)
class Success(Generic[T]):
    """What the answer held."""

    value: T


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the replies to one request.

    Attributes:
        hook: a 404 says that a hook is gone.
    """

    request: Request
    run_id: str | None
    hook: bool

    def judge(
        self,
        reply: Answer | Loss,
        read: Callable[[Answer], T],
        throttle: Budget,
        wall: Callable[[], datetime],
    ) -> Success[T] | Failure:
        """What `reply` is.

        Args:
            read: takes the value out of a 2xx answer; raises MalformedError when it is unreadable, which
                is ambiguous, or ProtocolError when the server itself says it cannot answer.
            throttle: what is left to wait, for the error to tell.
            wall: the instant, against which dates are read.
        """
        label, run_id = self.request.label, self.run_id
        if isinstance(reply, Loss):
            kind = FailureClass.AMBIGUOUS if reply.sent else FailureClass.NOT_SENT
            lost = TransportError(
                f"{label}: {reply.cause}", ambiguous=reply.sent, status=reply.status, run_id=run_id
            )
            return Failure(kind, lost, reply.status)
        status = reply.status
        refusal = _refusal(reply) if status >= 400 else Refusal()
        failure = classify_answer(
            status,
            challenged=is_challenge(reply),
            code=refusal.code,
            # Only what went out under a key can be collected under it.
            pending_codes=_PENDING_CODES if spec.HEADER_KEY in self.request.headers else NO_CODES,
        )
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
        return self._refused(failure, reply, refusal, throttle, wall())

    def _refused(
        self, kind: FailureClass, answer: Answer, refusal: Refusal, throttle: Budget, now: datetime
    ) -> Failure:
        status, code = answer.status, refusal.code
        asked = answer.headers.getall(spec.HEADER_RETRY_AFTER, [])
        if kind is FailureClass.PENDING:
            asked_s = read_pace(asked, now)
        else:
            asked_s = throttle_wait(asked, now) if asked or status == 429 else None
        message = f"{self.request.label}: {status}" + (f" {refusal.message}" if refusal.message else "")
        error: EventClientError
        if kind is FailureClass.THROTTLED:
            error = _throttle(message, asked_s or 0.0, throttle, self.run_id)
        elif kind is FailureClass.REFUSED:
            error = rejection(
                status, message, code=code, retry_after=asked_s, hook=self.hook, run_id=self.run_id
            )
            if isinstance(error, PreconditionFailedError):
                error.log = refusal.log
        else:
            error = TransportError(message, ambiguous=True, status=status, code=code, run_id=self.run_id)
        return Failure(kind, error, status, code, asked_s)


def _refusal(answer: Answer) -> Refusal:
    """What the body of a refusal says, and its headers where the body names no code."""
    refusal = decode_refusal(answer.headers.get("Content-Type", ""), answer.body)
    kind = answer.headers.get(spec.HEADER_ERROR_TYPE, "").strip()
    if refusal.code is None and kind:
        return Refusal(refusal.message, kind, refusal.log)
    return refusal


_NOTHING_WRITTEN: Final = "Nothing was written; send it again later"


def _throttle(message: str, asked_s: float, budget: Budget, run_id: str | None) -> ThrottleError:
    return ThrottleError(
        f"{message}: the server asks to wait {asked_s:g} s; {budget.spent_s:.1f} s of a budget of"
        f" {budget.budget_s:g} s are spent. {_NOTHING_WRITTEN}",
        retry_after=asked_s,
        waited=budget.spent_s,
        budget=budget.budget_s,
        run_id=run_id,
    )


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


def explained(failure: Failure, reason: str, *, attempts: int, maybe_landed: bool) -> Failure:
    """`failure` with the reason why it was final, and ambiguous if any of its attempts was."""
    error = failure.error
    if isinstance(error, TransportError | ProtocolError):
        error.message += f" (attempt {attempts}; {reason})"
    if maybe_landed:
        if isinstance(error, TransportError):
            error.ambiguous = True
        elif isinstance(error, ThrottleError):
            error.message = error.message.replace(
                _NOTHING_WRITTEN,
                "This answer wrote nothing, but an earlier attempt whose answer was lost may have",
            )
    return failure


def raise_error(error: EventClientError) -> NoReturn:
    """Raise `error` and keep the refusal that is its context, also inside of somebody's `except`.

    Raises:
        EventClientError: `error`.
    """
    context = error.__context__
    if not isinstance(context, RejectedError):
        raise error
    try:
        raise context
    except RejectedError:
        raise error  # noqa: B904 - that the refusal becomes its context is the point
