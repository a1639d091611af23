"""The whole error tree. Every error is plain values; no message ever holds a token or a payload.

EventClientError
├── ConfigurationError            the client was set up wrongly; nothing was sent
├── InvalidEventError             an event cannot be sent as it is; nothing was sent
├── TransportError                the request or its answer was lost on the way
├── ProtocolError                 an answer arrived and is not what the protocol says
├── ThrottleError                 the throttle budget does not cover the wait the server asked for
├── FirewallChallengeError        a firewall answered in place of the server
└── RejectedError                 the server refused (any definitive 4xx)
    ├── AuthenticationError           401, 403
    ├── NotFoundError                 404
    │   └── HookNotFoundError             404 of a hook event
    ├── ConflictError                 409
    ├── RunExpiredError               410
    ├── PreconditionFailedError       412
    └── TooEarlyError                 425
"""

from __future__ import annotations

from typing import Any


class EventClientError(Exception):
    """Base of everything this library raises on purpose.

    Attributes:
        run_id: the run the call was for, if it was for one.
        event_index: 0-based position of the event in the call, if one event is to blame.
        receipts: for writes, one `Receipt` per submitted event, in order.
        ledger: for writes, the `Ledger` of what was spent until then.
    """

    def __init__(self, message: str, *, run_id: str | None = None, event_index: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.run_id = run_id
        self.event_index = event_index
        self.receipts: tuple[Any, ...] = ()
        self.ledger: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Copying and pickling must not go through the constructors, which need more than a message.
        return _rebuild, (type(self), self.message, self.__dict__)

    def __str__(self) -> str:
        where = []
        if self.run_id is not None:
            where.append(f"run {self.run_id}")
        if self.event_index is not None:
            where.append(f"event {self.event_index}")
        return f"{self.message} [{', '.join(where)}]" if where else self.message


def _rebuild(kind: type[EventClientError], message: str, state: dict[str, Any]) -> EventClientError:
    error = kind.__new__(kind, message)
    error.__dict__.update(state)
    return error


class ConfigurationError(EventClientError):
    """The client cannot work as configured. Nothing was written."""


class InvalidEventError(EventClientError):
    """An event cannot be sent as it is. Nothing of the call was sent.

    Attributes:
        field: the field to mend, as a dotted path in the event (``eventData.input``).
        reason: why, in a sentence.
    """

    def __init__(
        self,
        reason: str,
        *,
        field: str,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(f"{field}: {reason}", run_id=run_id, event_index=event_index)
        self.field = field
        self.reason = reason


class TransportError(EventClientError):
    """The connection failed.

    Attributes:
        ambiguous: True when the server may have seen the request, False when it surely did not.
        status: the HTTP status, when an answer began.
    """

    def __init__(
        self,
        message: str,
        *,
        ambiguous: bool,
        status: int | None = None,
        code: str | None = None,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, event_index=event_index)
        self.ambiguous = ambiguous
        self.status = status
        self.code = code


class ProtocolError(EventClientError):
    """An answer is malformed, so what it answers may or may not have been written.

    Attributes:
        code: the server's own code when it sent an error frame (``payload-missing``).
        status: the HTTP status of the answer.
    """

    ambiguous = True

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, event_index=event_index)
        self.code = code
        self.status = status


class ThrottleError(EventClientError):
    """The server asked to wait (429) for longer than the budget still covers. Nothing was written
    by the refused request; sending it again later is safe.

    Attributes:
        retry_after: seconds the server asked for, at least 1.
        waited: seconds already spent waiting under this budget.
        budget: the whole budget in seconds.
    """

    status = 429

    def __init__(
        self,
        message: str,
        *,
        retry_after: float,
        waited: float,
        budget: float,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, event_index=event_index)
        self.retry_after = retry_after
        self.waited = waited
        self.budget = budget


class FirewallChallengeError(EventClientError):
    """A firewall challenged the request (``x-vercel-mitigated: challenge``). It never reached the
    server; a program cannot pass a challenge, so the route has to be allow-listed.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, event_index=event_index)
        self.status = status


class RejectedError(EventClientError):
    """The server refused, definitively.

    Attributes:
        status: the HTTP status, or the status of the event's own result.
        code: the server's code string, if it sent one.
        retry_after: seconds, where the server named them (412, 425).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        retry_after: float | None = None,
        run_id: str | None = None,
        event_index: int | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, event_index=event_index)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class AuthenticationError(RejectedError):
    """401 or 403: the token is missing, wrong or not allowed to do this."""


class NotFoundError(RejectedError):
    """404: no such run, step, wait or event, or no such route."""


class HookNotFoundError(NotFoundError):
    """404 of ``hook_received`` or ``hook_disposed``: the hook does not exist or was disposed."""


class ConflictError(RejectedError):
    """409: the entity is not in the state the event requires."""


class RunExpiredError(RejectedError):
    """410: the run has ended or expired."""


class PreconditionFailedError(RejectedError):
    """412: the caller's view of the log is stale. Reload and decide again.

    Attributes:
        log: the part of the log the caller is missing (a `Log`), when the server sent it whole.
    """

    log: Any = None


class TooEarlyError(RejectedError):
    """425: a step may not be started before its ``retryAfter``."""


def rejection(
    status: int,
    message: str,
    *,
    code: str | None = None,
    retry_after: float | None = None,
    hook: bool = False,
    run_id: str | None = None,
    event_index: int | None = None,
) -> RejectedError:
    """The typed error of a refusal with this `status`; `hook` says that a hook event was refused."""
    kind = _BY_STATUS.get(status, RejectedError)
    if kind is NotFoundError and hook:
        kind = HookNotFoundError
    return kind(
        message,
        status=status,
        code=code,
        retry_after=retry_after,
        run_id=run_id,
        event_index=event_index,
    )


_BY_STATUS: dict[int, type[RejectedError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFoundError,
    409: ConflictError,
    410: RunExpiredError,
    412: PreconditionFailedError,
    425: TooEarlyError,
}
