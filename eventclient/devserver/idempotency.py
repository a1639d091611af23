"""Requests that carry a key: executed at most once, however often they are delivered.

Of each key there is one durable record, in the store and beside the log of its run. The first delivery
*claims* the key: it commits a claim token and a lease. Then it evaluates its events, and the transaction that
writes them also looks whether the claim still stands, and records the answer. So:

* the same request again gets the recorded answer, and nothing is executed;
* another request under the key is refused (422);
* a delivery that comes while the claim is held is told so (409, with a pace);
* a claim whose holder died is reclaimed after its lease, under a higher token; should the holder not be dead
  but late, its transaction finds the other token and writes nothing;
* an execution that fails without having written gives its claim back.

A request that is refused before anything is evaluated (a malformed body, a batch of a shape that is never
taken) leaves no record: it meets the same each time.

Source: no published server of the protocol honours keys; the header and the meanings of 409 and 422 are those
of draft-ietf-httpapi-idempotency-key-header-07.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from eventclient.clock import Clock
from eventclient.errors import ConfigurationError
from eventclient.wire import spec
from eventclient.wire.items import epoch_ms
from eventclient.wire.replies import Refused

from .evaluation import Answer, Evaluation, Plan
from .hidden import Hidden, HolderLostError, Protection
from .leases import Upkeep
from .notices import Notices
from .recorded import decode_answer, encode_answer
from .state import Changes, Key, KeyChanges, KeyRecord, State, Wanted
from .store import CommitLostError, Decision, Store, StoreUnavailableError

logger: Final = logging.getLogger("eventclient.devserver")

PACE_S: Final = 1
"""After how long a caller is asked to come back for an answer: whole seconds are all the header carries."""
MIN_RETENTION_S: Final = 60.0
MAX_SECONDS: Final = 10 * 365 * 86_400.0
SWEEP_INTERVAL_S: Final = 60.0
SWEEP_LIMIT: Final = 1000
"""Most records that are forgotten at once: others wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """How long the server stands by a key. Seconds.

    Attributes:
        deadline_s: after this long a request with a key is answered 504 and executed on; its answer can be
            collected under its key.
        lease_s: how long a claim lasts unless it is renewed, which it is while its request is executed.
            Whoever dies holds the key up for so long. It ends by the clock of whoever looks, so the clocks of
            servers that share a database should agree to well within it; should they not, the fence holds.
        retention_s: how long a record is kept, counted from the commit of its answer, or from the latest
            claim while there is none. A delivery after that is executed as a new one, so it has to outlast
            what callers take to come back: at least `lease_s` and `MIN_RETENTION_S`.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    deadline_s: float = 10.0
    lease_s: float = 15.0
    retention_s: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("deadline_s", "lease_s", "retention_s"):
            value = getattr(self, name)
            if not 0 < value <= MAX_SECONDS:
                raise ConfigurationError(
                    f"KeyOptions({name}={value!r}): must be above 0 and at most {MAX_SECONDS:.0f}"
                )
        if self.retention_s < max(self.lease_s, MIN_RETENTION_S):
            raise ConfigurationError(
                f"KeyOptions(retention_s={self.retention_s!r}): must be at least lease_s and"
                f" {MIN_RETENTION_S:.0f}, or whoever collects an answer would have it executed again"
            )


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim: the key is ours to execute."""

    record: KeyRecord


Met = Answer[Evaluation]


class Idempotency:
    """Executes plans under keys.

    Args:
        store: opened.
        clock: tells what time it is.
        notices: is told of every run whose log has grown.
        options: how long it stands by a key.
        hidden: switches for tests and drills.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        notices: Notices,
        options: KeyOptions | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._notices = notices
        self._options = options or KeyOptions()
        self._hidden = hidden or Hidden()
        self._running: set[asyncio.Task[Met]] = set()
        self._unattended: set[asyncio.Task[Met]] = set()
        self._swept_at: float | None = None

    async def execute(self, run_id: str, key: Key, plan: Plan) -> Met:
        """Execute `plan`, unless it was, is being or must not be.

        Raises:
            StoreUnavailableError: nothing was written.
            CommitLostError: it was written or not.
            HolderLostError: a hidden switch says so.
        """
        if self._hidden.protection is Protection.NONE:
            met: Met = Answer(await self._store.change(plan.wanted, plan.decide))
            self._notices.tell(run_id)
            return met
        work = asyncio.ensure_future(self._execute(run_id, key, plan))
        self._running.add(work)
        work.add_done_callback(self._ended)
        done, _ = await asyncio.wait({work}, timeout=self._options.deadline_s)
        if done:
            return work.result()
        self._unattended.add(work)
        message = f"still being executed after {self._options.deadline_s:g} s: send it again for its answer"
        return _refused(504, spec.CODE_DEADLINE_EXCEEDED, message, PACE_S)

    async def aclose(self, within_s: float) -> None:
        """Let what is being executed finish for `within_s` seconds, then give it up: claims lapse."""
        if self._running:
            await asyncio.wait(self._running, timeout=within_s)
        for work in self._running:
            work.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _ended(self, work: asyncio.Task[Met]) -> None:
        self._running.discard(work)
        is_unattended = work in self._unattended
        self._unattended.discard(work)
        failure = None if work.cancelled() else work.exception()
        if failure is not None and is_unattended:
            # What a database says may quote what it was given.
            logger.warning("a request that had been answered 504 failed: %s", type(failure).__name__)

    async def _execute(self, run_id: str, key: Key, plan: Plan) -> Met:
        await self.sweep()
        wanted = Wanted(run_id=run_id, run=False, keys=frozenset({key.text}))
        # A claim that is lost with the machine had nothing executed under it that is not lost, too.
        met = await self._store.change(wanted, lambda state: self._claim(run_id, key, state), durable=False)
        if isinstance(met, Answer):
            return met
        held = met.record
        wanted = replace(plan.wanted, keys=wanted.keys)
        try:
            await self._hidden.between(run_id, key.text, held.token)
            with Upkeep(self._options.lease_s, lambda: self._renew(run_id, key, held)):
                if key.pause is not None:
                    await key.pause()
                answer = await self._store.change(
                    wanted, lambda state: self._commit(run_id, key, held, plan, state)
                )
        except (CommitLostError, HolderLostError):
            # It may have been written. Who comes for it after the lease finds out.
            raise
        except Exception:
            await self._release(run_id, key, held)
            raise
        # Whoever asked may have gone with a 504; those who wait for the run have not.
        self._notices.tell(run_id)
        return answer

    def _claim(self, run_id: str, key: Key, state: State) -> Decision[Met | _Held]:
        now_ms = self._now_ms()
        known = state.records.get(key.text)
        if known is not None and known.expires_ms > now_ms:
            met = _meet(known, key, now_ms)
            if met is not None:
                return Decision(met)
        record = KeyRecord(
            fingerprint=key.fingerprint,
            # Higher than those before it, even, while the clock goes forward, than those that were forgotten.
            token=max(now_ms, known.token + 1 if known is not None else 0),
            lease_until_ms=now_ms + _ms(self._options.lease_s),
            expires_ms=now_ms + _ms(self._options.retention_s),
        )
        return Decision(_Held(record), KeyChanges(run_id=run_id, records={key.text: record}))

    def _commit(self, run_id: str, key: Key, held: KeyRecord, plan: Plan, state: State) -> Decision[Met]:
        known = state.records.get(key.text)
        if self._hidden.protection is Protection.FENCED and not _stands(held, known):
            met = None if known is None else _meet(known, key, self._now_ms())
            return Decision(met or _in_progress())
        decision = plan.decide(state)
        record = replace(
            held,
            lease_until_ms=None,
            answer=encode_answer(decision.answer, plan.resolves),
            has_payloads=any(plan.resolves),
            expires_ms=self._now_ms() + _ms(self._options.retention_s),
        )
        records = {key.text: record}
        changes: Changes | KeyChanges = KeyChanges(run_id=run_id, records=records)
        if isinstance(decision.changes, Changes):
            changes = replace(decision.changes, records=records)
        return Decision(Answer(decision.answer), changes)

    async def _renew(self, run_id: str, key: Key, held: KeyRecord) -> None:
        await self._hold_until(run_id, key, held, self._now_ms() + _ms(self._options.lease_s))

    async def _release(self, run_id: str, key: Key, held: KeyRecord) -> None:
        """Give a claim back under which nothing was written; should that fail, it lapses."""
        with suppress(StoreUnavailableError, CommitLostError):
            await self._hold_until(run_id, key, held, None)

    async def _hold_until(self, run_id: str, key: Key, held: KeyRecord, lease_until_ms: int | None) -> None:
        """Let a claim end at another instant, if it still stands."""

        def decide(state: State) -> Decision[None]:
            if not _stands(held, state.records.get(key.text)):
                return Decision(None)
            record = replace(held, lease_until_ms=lease_until_ms)
            return Decision(None, KeyChanges(run_id=run_id, records={key.text: record}))

        wanted = Wanted(run_id=run_id, run=False, keys=frozenset({key.text}))
        await self._store.change(wanted, decide, durable=False)

    async def sweep(self) -> None:
        """Forget what has expired, but not more often than once in a while."""
        now = self._clock.now()
        interval_s = min(SWEEP_INTERVAL_S, self._options.retention_s)
        if self._swept_at is not None and now - self._swept_at < interval_s:
            return
        self._swept_at = now
        with suppress(StoreUnavailableError):
            dropped = await self._store.drop_records(self._now_ms(), SWEEP_LIMIT)
            if dropped == SWEEP_LIMIT:
                # There may be more: the next request goes on.
                self._swept_at = None

    def _now_ms(self) -> int:
        return epoch_ms(self._clock.wall())


def _stands(held: KeyRecord, known: KeyRecord | None) -> bool:
    """Whether nobody has reclaimed the key or executed its request since it was claimed."""
    return known is not None and known.token == held.token and known.answer is None


def _meet(known: KeyRecord, key: Key, now_ms: int) -> Met | None:
    """What a delivery of `key` meets at a record; None when it may be executed."""
    if known.fingerprint != key.fingerprint:
        return _refused(422, spec.CODE_KEY_REUSE, "another request has come under this key")
    if known.answer is not None:
        return Answer(decode_answer(known.answer), is_replayed=True)
    if known.lease_until_ms is not None and known.lease_until_ms > now_ms:
        return _in_progress()
    return None


def _in_progress() -> Met:
    return _refused(409, spec.CODE_IN_PROGRESS, "a request with this key is being executed", PACE_S)


def _refused(status: int, code: str, message: str, retry_after_s: int | None = None) -> Met:
    return Answer(Evaluation((), 0, Refused(status, code, message, retry_after_s)))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
