"""What a write cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cost of one call.

    Attributes:
        requests: HTTP requests begun, retries included.
        bytes: request body bytes of those requests.
        throttled_s: seconds waited because a server answered 429.
        backoff_s: seconds waited before sending again after a failure.
        fallbacks: how many times events of a batch were sent as single posts instead.
    """

    requests: int = 0
    bytes: int = 0
    throttled_s: float = 0.0
    backoff_s: float = 0.0
    fallbacks: int = 0


@dataclass(slots=True)
class LedgerBook:
    """The running account from which a `Ledger` is taken."""

    requests: int = 0
    bytes: int = 0
    throttled_s: float = 0.0
    backoff_s: float = 0.0
    fallbacks: int = 0

    def close(self) -> Ledger:
        """The account as it stands."""
        return Ledger(self.requests, self.bytes, self.throttled_s, self.backoff_s, self.fallbacks)
