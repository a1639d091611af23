"""What an evaluation loads from a store, what it hands back to be saved, and rows of the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.rows import LogRow as LogRow
from eventclient.wire.rows import NewRow

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What has to be known of a run before its events can be evaluated.

    Attributes:
        steps, waits, hooks: correlation ids.
        tokens: hook tokens, whose holders may belong to other runs.
        claims: keys that make events safe to repeat.
        keys: idempotency keys of requests.
        run: whether the run itself is needed, and where its log ends.
    """

    run_id: str
    run: bool = True
    steps: frozenset[str] = NONE
    waits: frozenset[str] = NONE
    hooks: frozenset[str] = NONE
    tokens: frozenset[str] = NONE
    claims: frozenset[str] = NONE
    keys: frozenset[str] = NONE


@dataclass(frozen=True, slots=True)
class Claim:
    """A used key.

    Attributes:
        slot: of the event that used it.
        detail: what that event said, as far as a repeat has to say the same.
    """

    slot: int
    detail: str = ""


class Key(NamedTuple):
    """What a request is known by.

    Attributes:
        text: the idempotency key itself.
        fingerprint: tells whether another request is the same.
        pause: awaited while the request is being executed; a fault that makes it slow.
    """

    text: str
    fingerprint: bytes
    pause: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """What is known of a request that carried an idempotency key.

    It is *committed* once it has an answer, *in progress* while it has a lease, and else merely *received*:
    nobody works at it. Instants are milliseconds since 1970.

    Attributes:
        fingerprint: of the request.
        token: of the latest claim; it grows with each.
        lease_until_ms: until when its holder is taken to be alive; None when nobody holds it.
        answer: what `recorded` made of the answer; None until the request is committed.
        has_payloads: whether `answer` may hold payloads.
        expires_ms: when it may be forgotten.
    """

    fingerprint: bytes
    token: int
    lease_until_ms: int | None = None
    answer: bytes | None = field(default=None, repr=False)
    has_payloads: bool = False
    expires_ms: int = 0


@dataclass(frozen=True, slots=True)
class Holder:
    """The hook that holds a token, and its run."""

    hook: Hook
    run: Run | None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a store holds of the things wanted; what is missing is absent.

    Attributes:
        last_slot: the highest slot of the run's log; 0 when it is empty.
        steps, waits, hooks: by correlation id.
        holders: by token.
        claims: by key.
        records: of requests, by idempotency key.
    """

    run: Run | None = None
    last_slot: int = 0
    steps: Mapping[str, Step] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    holders: Mapping[str, Holder] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    records: Mapping[str, KeyRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """Records of requests that are written while their run stays as it is; there need be no such run."""

    run_id: str
    records: Mapping[str, KeyRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one evaluation writes, in the order in which a store has to apply it.

    Attributes:
        run: the run as it is now.
        last_slot: the highest slot now.
        ended_at: when set, the run has ended: all its waits go, and its hooks but for those whose token
            is retained beyond this instant.
        gone_hooks: pairs of run id and hook id; a token may be taken over from another run.
        steps, waits, hooks, claims: new or changed, by correlation id or key.
        events: new rows of the log, in slot order.
        records: of requests, new or changed, by idempotency key.
        purge: all payloads of the run go: those of its events, of its steps and hooks, of its recorded
            answers, and its own. Its streams are closed and lose their chunks.
    """

    run: Run
    last_slot: int
    purge: bool = False
    ended_at: datetime | None = None
    gone_hooks: tuple[tuple[str, str], ...] = ()
    steps: Mapping[str, Step] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    records: Mapping[str, KeyRecord] = field(default_factory=dict)
    events: tuple[NewRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which rows of a run's log to read.

    Attributes:
        after: only slots behind this one, in the order asked for: greater when ascending, smaller when
            descending. None reads from the beginning, or the end.
        before: ascending only: slots smaller than this one.
        limit: most rows; None reads them all.
        correlation_id: only events that carry it.
        payloads: whether the rows are to hold their payloads; without, every payload is empty and none is
            read from the disk.
    """

    run_id: str
    after: int | None = None
    before: int | None = None
    limit: int | None = None
    descending: bool = False
    correlation_id: str | None = None
    payloads: bool = True
