"""Identifiers: slots and ULID times. Source: `@workflow/world` 5.0.0-beta.37."""

from __future__ import annotations

import re
from datetime import UTC, datetime

EVENT_PREFIX = "evnt_"
RUN_PREFIX = "wrun_"
_SLOT = re.compile(r"evnt_(0{10}\d{16})", re.ASCII)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CROCKFORD_VALUE = {char: value for value, char in enumerate(_CROCKFORD)}


def slot_of(event_id: str) -> int | None:
    """The slot number of a slot event id, or None for any other id.

    A slot id is ``evnt_`` and 26 decimal digits of which at least ten lead as zeros; slots start at 1.
    """
    match = _SLOT.fullmatch(event_id)
    return int(match[1]) or None if match else None


def slot_event_id(slot: int) -> str:
    """The event id of `slot` (1-based): string order is numeric order."""
    return f"{EVENT_PREFIX}{slot:026d}"


def ulid_time(run_id: str) -> datetime | None:
    """The instant a run id was minted, with the region tag bit taken off; None if it is no ULID.

    The top bit of the ULID marks a region-tagged id and is not part of the time.
    """
    text = run_id.removeprefix(RUN_PREFIX).upper()
    if len(text) != 26 or text[0] > "7" or any(char not in _CROCKFORD_VALUE for char in text):
        return None
    milliseconds = 0
    for char in text[:10]:
        milliseconds = milliseconds << 5 | _CROCKFORD_VALUE[char]
    milliseconds &= (1 << 47) - 1
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def encode_ulid(milliseconds: int, entropy: int) -> str:
    """A ULID from `milliseconds` since 1970 (48 bits) and `entropy` (80 bits)."""
    number = milliseconds << 80 | entropy
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5))
