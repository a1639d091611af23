"""What a write cost: requests, bytes, and where its time went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cost of one call. Every moment of it belongs to one of the parts, so they add up to `wall_s`.

    While several requests of a call are under way, a moment in which any of them is on the wire counts as
    `wire_s`, and one in which all of them wait counts once.

    Attributes:
        requests: HTTP requests begun, retries and reads included.
        bytes: request body bytes of those requests.
        throttled_s: seconds waited because a server answered 429.
        backoff_s: seconds waited before sending again after a failure.
        fallbacks: how many times events of a batch were sent as single posts instead.
        reads: how many times the log was read to find out whose write a 409 met.
        encoding_s: seconds of our own work: encoding events, decoding answers and all the rest.
        wire_s: seconds in which a request was under way.
        collect_s: seconds waited before asking for the result of a request that was still being executed.
        queued_s: seconds waited for the turn of the run, while another call wrote to it.
        wall_s: seconds of the whole call.
    """

    requests: int = 0
    bytes: int = 0
    throttled_s: float = 0.0
    backoff_s: float = 0.0
    fallbacks: int = 0
    reads: int = 0
    encoding_s: float = 0.0
    wire_s: float = 0.0
    collect_s: float = 0.0
    queued_s: float = 0.0
    wall_s: float = 0.0


class Phase(IntEnum):
    """What a call is doing. Of several at a time the first counts."""

    WIRE = 0
    THROTTLED = 1
    COLLECT = 2
    BACKOFF = 3
    QUEUED = 4
    ENCODING = 5
    """Nothing of the above."""


_LAST: Final = len(Phase) - 1


class LedgerBook:
    """The running account from which a `Ledger` is taken: counters, and a stopwatch of phases.

    Attributes:
        requests, bytes, fallbacks, reads: as in `Ledger`; whoever causes them counts them here.
    """

    __slots__ = (
        "_counts",
        "_now",
        "_phase",
        "_seconds",
        "_since",
        "_started",
        "bytes",
        "fallbacks",
        "reads",
        "requests",
    )

    def __init__(self, now: Callable[[], float]) -> None:
        """Starts the stopwatch. `now` gives monotonic seconds."""
        self.requests = 0
        self.bytes = 0
        self.fallbacks = 0
        self.reads = 0
        self._now = now
        # The last phase is always under way.
        self._counts = [0, 0, 0, 0, 0, 1]
        self._seconds = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        self._phase: int = _LAST
        self._started = self._since = now()

    def enter(self, phase: Phase) -> float:
        """Begin `phase`, beside what is under way; `leave` must follow. Returns the time it began at."""
        now = self._now()
        self._counts[phase] += 1
        if phase < self._phase:
            self._turn(phase, now)
        return now

    def leave(self, phase: Phase) -> float:
        """End a `phase` that was entered. Returns the time it ended at."""
        now = self._now()
        counts = self._counts
        counts[phase] -= 1
        if phase == self._phase and not counts[phase]:
            following = int(phase)
            while not counts[following]:
                following += 1
            self._turn(following, now)
        return now

    def _turn(self, phase: int, now: float) -> None:
        self._seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now

    def close(self) -> Ledger:
        """The account as it stands."""
        now = self._now()
        self._turn(self._phase, now)
        wire_s, throttled_s, collect_s, backoff_s, queued_s, encoding_s = self._seconds
        return Ledger(
            requests=self.requests,
            bytes=self.bytes,
            throttled_s=throttled_s,
            backoff_s=backoff_s,
            fallbacks=self.fallbacks,
            reads=self.reads,
            encoding_s=encoding_s,
            wire_s=wire_s,
            collect_s=collect_s,
            queued_s=queued_s,
            wall_s=now - self._started,
        )
