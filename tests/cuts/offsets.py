"""Which bytes are cut at.

By default: every offset of the first 1 KiB and of the last 512 bytes, and every 61st between them, several in
one round. With ``EVENTCLIENT_EVERY_CUT=1`` in the environment: every offset, each in a round of its own,
which takes about twenty minutes on two cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from tests.support.cutting_relay import Cut, Part

EVERY: Final = bool(os.environ.get("EVENTCLIENT_EVERY_CUT"))
FIRST: Final = 1024
LAST: Final = 512
STRIDE: Final = 61
"""A prime, so that it falls in step with no field of the protocol."""


def offsets(length: int, *, first: int = FIRST, last: int = LAST, step: int = STRIDE) -> list[int]:
    """Offsets below `length` to cut at, ascending: the `first` and `last` ones and some between them."""
    if EVERY:
        return list(range(length))
    between = range(first, length - last, step)
    return sorted({*range(min(first, length)), *between, *range(max(length - last, 0), length)})


def stride(length: int, step: int) -> Iterator[int]:
    """Every `step`-th offset below `length`, and the last one; all of them where every cut is wanted."""
    yield from range(0, length - 1, 1 if EVERY else step)
    yield length - 1


def rounds(chosen: Sequence[int], size: int) -> list[Sequence[int]]:
    """`chosen`, dealt out to rounds of up to `size` cuts each.

    Where a request is executed once and its answer repeated afterwards, every `size`-th of `chosen` is an
    offset of the answer that is given for the first time.
    """
    size = 1 if EVERY else size
    return [chosen[start : start + size] for start in range(0, len(chosen), size)]


def cuts(part: Part, chosen: Sequence[int], number: int) -> list[Cut]:
    """The cuts of round `number`; every other one ends in a reset, beginning with the first or the second."""
    return [Cut(part, at, reset=(number + index) % 2 == 1) for index, at in enumerate(chosen)]
