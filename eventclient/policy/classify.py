"""What an answer, or the lack of one, is. One table.

Source: RFC 9110 (status classes); `@workflow/world-vercel` 5.0.0-beta.50 (429 writes nothing, a challenge
comes from a firewall, 5xx leaves the outcome open).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FailureClass(StrEnum):
    """Why a request did not end in an answer that can be read."""

    THROTTLED = "throttled"
    """429: nothing was written; wait and send again, whatever the event."""
    CHALLENGED = "challenged"
    """A firewall answered. Never sent again: that only feeds the firewall."""
    REDIRECTED = "redirected"
    """3xx: the address is wrong. Never followed: a redirected POST loses its body."""
    REFUSED = "refused"
    """Any other 4xx: definitive."""
    AMBIGUOUS = "ambiguous"
    """The server may have acted: connection lost, timeout, 5xx, unreadable 2xx."""
    PENDING = "pending"
    """Still being executed under its key: the result is collected by sending the same again."""
    NOT_SENT = "not sent"
    """The request never left: connection refused, name not found, no connection free in time."""


STATUS_CLASSES: Final[tuple[tuple[range, FailureClass | None], ...]] = (
    (range(200, 300), None),
    (range(300, 400), FailureClass.REDIRECTED),
    (range(429, 430), FailureClass.THROTTLED),
    (range(400, 500), FailureClass.REFUSED),
    (range(500, 600), FailureClass.AMBIGUOUS),
)
"""The first range that holds a status decides; None is success."""

NO_CODES: Final[Mapping[int, str]] = MappingProxyType({})


def classify_answer(
    status: int,
    *,
    challenged: bool,
    code: str | None = None,
    pending_codes: Mapping[int, str] = NO_CODES,
) -> FailureClass | None:
    """The class of an answer with this `status`; None when it succeeded.

    Args:
        challenged: the answer carries ``x-vercel-mitigated: challenge``, which overrides any status.
        code: what the answer says why, if it does.
        pending_codes: by status, the code with which it says that the request is still being executed; none
            for a request without a key. Of another code the status alone decides.
    """
    if challenged:
        return FailureClass.CHALLENGED
    if code is not None and pending_codes.get(status) == code:
        return FailureClass.PENDING
    for statuses, failure in STATUS_CLASSES:
        if status in statuses:
            return failure
    return FailureClass.AMBIGUOUS
