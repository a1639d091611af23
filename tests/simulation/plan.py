"""What a seed chooses: the kind of server, the options of the client, and how rough the world is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from eventclient.devserver.hidden import Protection
from eventclient.devserver.idempotency import KeyOptions
from eventclient.policy.retry import NO_RETRY, RetryOptions


class Kind(StrEnum):
    """What the server does about keys, and what it says of it."""

    KEYED = "keyed"
    """Honours them and says so."""
    OLD = "old"
    """Ignores them and says nothing."""
    LYING = "lying"
    """Ignores them and says that it honours them."""
    UNFENCED = "unfenced"
    """Honours them, and does not look at a commit whether the claim still stands."""
    FORGETFUL = "forgetful"
    """Honours them over a database that keeps nothing when its power fails."""


PROTECTIONS: Final = {
    Kind.KEYED: Protection.FENCED,
    Kind.OLD: Protection.NONE,
    Kind.LYING: Protection.NONE,
    Kind.UNFENCED: Protection.RECORDED,
    Kind.FORGETFUL: Protection.FENCED,
}
MAX_HURTS: Final = 2
"""How often a gentle world hurts one request: as often as the client sends it again."""
OLD_SHARE: Final = 0.3
GENTLE_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one seed's world is. Rates are probabilities per chance, durations are seconds.

    Attributes:
        is_gentle: no request is hurt more than `MAX_HURTS` times, and no read at all.
        refused, lost, cut, deaf, answered, throttled, doubled, late: what the network does to a request: no
            connection; lost on the way there; its answer cut off or lost on the way back; answered by an
            intermediary with a failure or a 429; delivered twice; underway for long.
        timeout_s: after how long the client gives up on an attempt.
        unavailable, commit_lost: how often a change of the database fails.
        slow: how often a change of the database takes long.
        stalls, dies: how often a holder oversleeps or is gone between its claim and its commit.
        crash_every_steps: mean count of callbacks between two crashes of a server while calls are under way;
            0 is never.
        power_fails: the first crash takes all servers and the database.
        cancels: how often a caller gives up.
        closes_early: the client is closed while calls are under way.
        batch: the client's option.
        has_batch_route: an old server may lack it.
        run_version: of the runs; below 6 they take no batches.
    """

    seed: int
    kind: Kind
    is_gentle: bool
    retry: RetryOptions
    keys: KeyOptions
    server_count: int
    refused: float
    lost: float
    cut: float
    deaf: float
    answered: float
    throttled: float
    doubled: float
    late: float
    timeout_s: float
    unavailable: float
    commit_lost: float
    slow: float
    stalls: float
    dies: float
    crash_every_steps: int
    power_fails: bool
    cancels: float
    closes_early: bool
    caller_count: int
    max_calls: int
    run_count: int
    max_batch_events: int
    batch: bool
    has_batch_route: bool
    run_version: int

    @property
    def honours_keys(self) -> bool:
        return PROTECTIONS[self.kind] is not Protection.NONE


def make_plan(seed: int, kind: Kind | None = None) -> Plan:
    """The plan of `seed`; `kind` overrules the kind of server it would choose."""
    chance = Random(f"{seed} plan")
    chosen = Kind.OLD if chance.random() < OLD_SHARE else Kind.KEYED
    is_gentle = chance.random() < GENTLE_SHARE
    kind = kind or chosen

    def rate(most: float) -> float:
        # Most worlds have some kinds of misfortune and not others, so that each gets room to be alone.
        return chance.random() * most if chance.random() < 0.6 else 0.0

    lease_s = chance.choice((1.0, 3.0, 15.0))
    return Plan(
        seed=seed,
        kind=kind,
        is_gentle=is_gentle,
        retry=RetryOptions() if is_gentle else _retry_options(chance),
        keys=KeyOptions(deadline_s=chance.choice((0.3, 2.0, 10.0)), lease_s=lease_s, retention_s=7200.0),
        server_count=2 if chance.random() < 0.2 else 1,
        refused=rate(0.2),
        lost=rate(0.2),
        cut=rate(0.15),
        deaf=rate(0.3),
        answered=rate(0.2),
        throttled=rate(0.15),
        doubled=rate(0.4),
        late=rate(0.15),
        timeout_s=15.0 if is_gentle else chance.choice((0.5, 4.0, 20.0)),
        unavailable=0.0 if is_gentle else rate(0.1),
        commit_lost=0.0 if is_gentle else rate(0.1),
        slow=rate(0.1),
        stalls=rate(0.3),
        dies=rate(0.2),
        crash_every_steps=chance.choice((0, 0, 60, 400)),
        power_fails=chance.random() < (1.0 if kind is Kind.FORGETFUL else 0.15),
        cancels=rate(0.25),
        closes_early=chance.random() < 0.08,
        caller_count=chance.choice((2, 2, 3)),
        max_calls=chance.choice((1, 2, 3)),
        run_count=chance.choice((1, 1, 2)),
        max_batch_events=chance.choice((3, 6, 32)),
        batch=chance.random() < 0.9,
        has_batch_route=kind is not Kind.OLD or chance.random() < 0.8,
        run_version=7 if chance.random() < 0.85 else 5,
    )


def _retry_options(chance: Random) -> RetryOptions:
    choice = chance.random()
    if choice < 0.1:
        return NO_RETRY
    if choice < 0.2:
        return RetryOptions(collect=False)
    if choice < 0.3:
        return RetryOptions(read_back=False)
    if choice < 0.4:
        return RetryOptions(throttle_budget_s=3.0, collect_budget_s=5.0, fast_budget_s=5.0)
    return RetryOptions()
