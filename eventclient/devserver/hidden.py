"""Switches that take away what protects a request under a key, to show what it is good for.

For tests and drills: no option of the command line that is told sets one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Protection(StrEnum):
    """How much is done about a key; less than all of it only to show what it is good for."""

    FENCED = "fenced"
    """Claimed, recorded, and no commit without the claim."""
    RECORDED = "recorded"
    """Claimed and recorded; a commit does not look whether its claim still stands."""
    NONE = "none"
    """Keys are ignored."""


class HolderLostError(Exception):
    """Whoever held a claim is gone, as if its process had died. Nothing more is done, not even answered."""


async def _at_once(run_id: str, key: str, token: int) -> None:
    """Nothing comes between a claim and its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Switches for tests and drills.

    Attributes:
        protection: how much is done about keys.
        between: awaited with run id, key and claim token when a claim is committed and its events are not
            evaluated yet; may raise `HolderLostError`.
    """

    protection: Protection = Protection.FENCED
    between: Callable[[str, str, int], Awaitable[None]] = field(default=_at_once, repr=False)
