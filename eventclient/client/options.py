"""The options of a client. Each rule's options sit beside the rule; here they are only put together."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eventclient.batching.chunks import BatchLimits
from eventclient.clock import Clock, SystemClock
from eventclient.errors import ConfigurationError
from eventclient.policy.retry import RetryOptions

_KEY_BYTES: Final = 16


def _mint_key() -> str:
    return secrets.token_hex(_KEY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client behaves. Durations are seconds.

    Attributes:
        retry: see `RetryOptions`; `NO_RETRY` sends everything once.
        batch: False sends single posts only, as the kill switch does.
        max_batch_events: most events in one batch, 1..50.
        max_batch_bytes: most frame bytes in one request. A larger event is refused before sending.
        connect_timeout_s: most time for a free connection, the name and the connect. Passing it means
            that nothing was sent. Less than `request_timeout_s`.
        read_timeout_s: most time between two pieces of an answer.
        request_timeout_s: most time for one attempt of a write in all. Keep it below the lease under
            which the caller runs.
        list_timeout_s: most time for one attempt to read a log.
        max_connections: connections to the server; not used with an injected session.
        max_answer_bytes: longest answer that is read.
        allow_plain_http: send a token over plain http to a host that is not loopback.
        clock: where time comes from.
        mint_key: makes the idempotency key of a request: 1..255 printable ASCII characters, never the same
            twice. The default is 128 random bits.
        limits: of one batch, from the two values above.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    retry: RetryOptions = field(default_factory=RetryOptions)
    batch: bool = True
    max_batch_events: int = 32
    max_batch_bytes: int = 768 * 1024
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    request_timeout_s: float = 60.0
    list_timeout_s: float = 600.0
    max_connections: int = 64
    max_answer_bytes: int = 1 << 30
    allow_plain_http: bool = False
    clock: Clock = field(default_factory=SystemClock)
    mint_key: Callable[[], str] = field(default=_mint_key, repr=False, compare=False)
    limits: BatchLimits = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits = BatchLimits(max_events=self.max_batch_events, max_bytes=self.max_batch_bytes)
        object.__setattr__(self, "limits", limits)
        for name in ("connect_timeout_s", "read_timeout_s", "request_timeout_s", "list_timeout_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigurationError(f"ClientOptions({name}={value!r}): must be finite and above 0")
        if self.connect_timeout_s >= self.request_timeout_s:
            raise ConfigurationError(
                "ClientOptions: connect_timeout_s must be below request_timeout_s, or a request that never"
                " left could not be told from one whose answer was lost"
            )
        for name in ("max_connections", "max_answer_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"ClientOptions({name}=...): must be at least 1")
