"""How long a server asks to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from . import spec

_DECIMAL: Final = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)", re.ASCII)
_NEGATIVE: Final = re.compile(r"-(\d+(\.\d*)?|\.\d+)", re.ASCII)
MAX_RETRY_AFTER_S: Final = 1e9
"""About thirty years: what longer demands are taken for, so that every figure stays finite."""


def read_retry_after(value: str, now: datetime) -> float | None:
    """Seconds that one ``Retry-After`` value asks for, rounded up to whole ones; None if unreadable.

    Takes delay seconds, decimal fractions and the three HTTP date forms. The result may be zero or
    negative (a date that has passed). Never raises.

    Source: RFC 9110 sections 5.6.7 and 10.2.3; fractions are seen in the wild.
    """
    text = value.strip()
    if _DECIMAL.fullmatch(text):
        return float(math.ceil(min(float(text), MAX_RETRY_AFTER_S)))
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return float(min(math.ceil((date - now).total_seconds()), MAX_RETRY_AFTER_S))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def throttle_wait(values: Iterable[str], now: datetime) -> float:
    """Seconds to wait after a 429 with these ``Retry-After`` values, at least 1.

    Absent, zero, negative, past and unreadable values mean 1; of several values, also when a proxy joined
    them with commas, the longest counts.
    """
    parts = [part for value in values for part in (value, *value.split(","))]
    asked = [read_retry_after(part, now) or 0.0 for part in parts]
    return max([spec.MIN_THROTTLE_WAIT_S, *asked])


def read_pace(values: Iterable[str], now: datetime) -> float | None:
    """Seconds after which a server wants to be asked again, at least 0; None when it names none.

    Negative numbers and dates that have passed mean 0. Unreadable values name nothing; of several readable
    ones, also when a proxy joined them with commas, the longest counts.
    """
    asked = []
    for value in values:
        for part in (value, *value.split(",")):
            seconds = 0.0 if _NEGATIVE.fullmatch(part.strip()) else read_retry_after(part, now)
            if seconds is not None:
                asked.append(max(0.0, seconds))
    return max(asked) if asked else None
