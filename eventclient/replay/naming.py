"""New ids for runs that are posted a second time."""

from __future__ import annotations

from datetime import datetime

from eventclient.model.ids import RUN_PREFIX, encode_ulid

_ENTROPY_COUNT = 1 << 80


def mint_run_ids(count: int, *, now: datetime, entropy: int) -> list[str]:
    """`count` new run ids, in rising order.

    Args:
        now: the instant the ids carry; servers refuse ids that are much older or newer than now.
        entropy: any random number of at least 80 bits; what is above them is cut off.
    """
    milliseconds = int(now.timestamp() * 1000)
    # Counted up from one random number, so that the runs sort as the recorded ones do.
    first = entropy % (_ENTROPY_COUNT - count)
    return [RUN_PREFIX + encode_ulid(milliseconds, first + index) for index in range(count)]
