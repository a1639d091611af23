"""Writes workflow events in ordered batches, never loses or doubles one, waits out throttling in process."""

from eventclient.client.client import EventClient
from eventclient.client.options import ClientOptions
from eventclient.client.writer import EventWriter
from eventclient.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    EventClientError,
    FirewallChallengeError,
    HookNotFoundError,
    InvalidEventError,
    NotFoundError,
    PreconditionFailedError,
    ProtocolError,
    RejectedError,
    RunExpiredError,
    ThrottleError,
    TooEarlyError,
    TransportError,
)
from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.events import (
    AttrSet,
    Event,
    HookCreated,
    HookDisposed,
    HookReceived,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunStarted,
    StepCompleted,
    StepCreated,
    StepFailed,
    StepRetrying,
    StepStarted,
    WaitCompleted,
    WaitCreated,
)
from eventclient.model.outcomes import Attempt, BatchResult, Outcome, Receipt
from eventclient.model.parsing import parse_event
from eventclient.model.results import Log
from eventclient.policy.retry import NO_RETRY, RetryOptions
from eventclient.telemetry.ledger import Ledger

__version__ = "0.1.0"

__all__ = [
    "NO_RETRY",
    "Attempt",
    "AttrSet",
    "AuthenticationError",
    "BatchResult",
    "ClientOptions",
    "ConfigurationError",
    "ConflictError",
    "Event",
    "EventClient",
    "EventClientError",
    "EventWriter",
    "FirewallChallengeError",
    "Hook",
    "HookCreated",
    "HookDisposed",
    "HookNotFoundError",
    "HookReceived",
    "InvalidEventError",
    "Ledger",
    "Log",
    "NotFoundError",
    "Outcome",
    "PreconditionFailedError",
    "ProtocolError",
    "Receipt",
    "RejectedError",
    "RetryOptions",
    "Run",
    "RunCancelled",
    "RunCompleted",
    "RunCreated",
    "RunExpiredError",
    "RunFailed",
    "RunStarted",
    "Step",
    "StepCompleted",
    "StepCreated",
    "StepFailed",
    "StepRetrying",
    "StepStarted",
    "StoredEvent",
    "ThrottleError",
    "TooEarlyError",
    "TransportError",
    "Wait",
    "WaitCompleted",
    "WaitCreated",
    "parse_event",
]
