"""Where our client ends otherwise than the published one on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from eventclient import (
    ConfigurationError,
    FirewallChallengeError,
    ProtocolError,
    ThrottleError,
    TransportError,
)

from .expectations import RESENT, Difference, differs

_AT: Final = datetime(2026, 11, 30, 2, 7, 36, 769_000, UTC)

_FALLS_BACK: Final = differs(
    "fallback: a definitive 400, 404 or 405 of the batch route sends the same events as single posts",
    error=None,
    fell_back=True,
)
_REDIRECTED: Final = differs(
    "redirects are never followed",
    error=ConfigurationError,
    status=None,
    returned=None,
    requests=1,
    waits=(),
    outcome="unsent",
)


def _taken(rule: str) -> Difference:
    return differs(rule, error=None, requests=1, waits=(), outcome="created")


def _refused(rule: str) -> Difference:
    malformed: dict[str, Any] = {"error": ProtocolError, "returned": None, "outcome": "unknown", **RESENT}
    return differs(rule, **malformed)


_NULL_IS_ABSENT: Final = _taken("answers: null counts as absent for what may be absent")
_NO_BIGINT: Final = _taken("answers: Python reads whole numbers of any size")

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "batch-http-400-*": _FALLS_BACK,
    "batch-http-404-*": _FALLS_BACK,
    "batch-http-405-*": _FALLS_BACK,
    "batch-pair-http-404-json": _FALLS_BACK,
    "batch-429-then-400": _FALLS_BACK,
    "batch-http-30?-location*": _REDIRECTED,
    "batch-pair-http-30?-location": _REDIRECTED,
    "list-http-307-location": _REDIRECTED,
    "create-429-challenge": differs(
        "firewall: a challenge is no throttle and is never sent again",
        error=FirewallChallengeError,
        status=429,
        requests=1,
        waits=(),
        outcome="unsent",
    ),
    "batch-429-1_5": differs("429: fractions of a second are rounded up", waits=(2.0,)),
    "batch-429-http-date": differs(
        "429: HTTP dates are understood, and a wait the budget does not cover is not begun",
        error=ThrottleError,
        status=429,
        returned=None,
        requests=1,
        waits=(),
        outcome="unsent",
    ),
    "list-503-retry-after-0-then-ok": differs("a Retry-After of zero means 1 s", waits=(1.0,)),
    "get-http-501-json": differs(
        "reads: every 5xx is sent again", requests=6, waits=(0.5, 1.0, 2.0, 4.0, 8.0)
    ),
    "list-http-501-json": differs(
        "reads: every 5xx is sent again", requests=6, waits=(0.5, 1.0, 2.0, 4.0, 8.0)
    ),
    "batch-fault-refused": differs(
        "not sent: two retries, and then surely unsent", waits=(0.1, 0.2), outcome="unsent"
    ),
    "list-fault-refused": differs("reads: five retries", waits=(0.5, 1.0, 2.0, 4.0, 8.0), outcome="unsent"),
    "batch-500-then-409": differs(
        "a 409 behind a lost answer is settled by reading the log, which cannot be read here",
        error=TransportError,
        outcome="unknown",
    ),
    "create-http-400-json-body-cbor-type": differs(
        "answers: a body labelled wrongly is still read", code="c"
    ),
    "batch-item-swapped-same-type": _refused("answers: results are in the order of the events"),
    "batch-date-null": _refused("answers: null counts as absent, and a stored event has a time"),
    "batch-field-specVersion-float": _refused("answers: a spec version is a whole number"),
    "batch-field-occurredAt-null": differs(
        "answers: null counts as absent, not as 1970", members={"results.0.event.occurredAt": None}
    ),
    "batch-optional-date-null": differs(
        "answers: null counts as absent, not as 1970",
        members={"results.0.step.startedAt": None, "results.0.step.retryAfter": None},
    ),
    "batch-date-*-naive-tz": differs(
        "answers: an instant without an offset is UTC, wherever the client runs",
        members={"results.0.event.createdAt": _AT},
    ),
    "batch-field-attempt-bigint": _NO_BIGINT,
    "batch-field-specVersion-bigint": _NO_BIGINT,
    "batch-status-bigint": differs(
        "answers: Python reads whole numbers of any size",
        error=None,
        requests=1,
        waits=(),
        outcome="conflict",
    ),
    "batch-field-run-attributes-null": _NULL_IS_ABSENT,
    "batch-field-run-completedAt-null-while-running": _NULL_IS_ABSENT,
    "batch-field-specVersion-null": _NULL_IS_ABSENT,
    "batch-field-step-null": _NULL_IS_ABSENT,
    "create-delta-nulls": _NULL_IS_ABSENT,
    "create-eventData-null-hook_disposed": _NULL_IS_ABSENT,
    "create-eventData-null-step_started": _NULL_IS_ABSENT,
    "create-eventData-null-wait_completed": _NULL_IS_ABSENT,
    "create-stepCreated-false": _taken("answers: what does not prove the write is read leniently"),
}
