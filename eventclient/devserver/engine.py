"""Evaluates posted events against a store.

Every event is evaluated as its single post would be; a batch is one transaction, so its survivors land
at consecutive slots or not at all, and a refused event uses up nothing. Slots are drawn inside the
transaction that commits them: every log is dense from 1, whatever the run's spec version.

Where the protocol leaves a question open, this server does the following.

* Refusals of a whole batch have status 400 and the code ``batch-requires-slot-identity`` (the run's
  spec version is below 6), ``batch-not-expressible`` (an event of a type that goes alone, or a second one
  about the same entity that is not the start of a step right behind its creation), ``batch-too-large``
  (over 50 events or 4 MiB) or ``malformed-frames`` (an empty body is one). A batch for a run that does
  not exist is refused whole, with 404 and ``run-not-found``: no batchable event creates a run. A
  malformed event inside a legal batch gets its own result, as its single post would. ``step_retrying``
  and ``run_failed`` may be in a batch.
* A second ``hook_disposed`` meets 404. A ``run_cancelled`` on a cancelled run meets 409.
* An ``attr_set`` of a workflow whose correlation id was used, and a ``hook_received`` whose resume id
  was used for the same hook and digest, are answered with the first event, also after the run ended.
* ``createdAt`` of an event and the instants of entities are its ``occurredAt``, else the clock.
  ``retryAfter`` and the retention of tokens are measured against the clock.
* Both results of a pair hold the step as it stands after both, without ``stepCreated``, which only a
  start that brings its input has; if either is refused, both are, alike.
* Of the headers of an answer to a post there are ``x-wf-event-id`` and ``x-wf-max-events``, no others.
* A flat ``run_started`` is answered with event and run, without the log.
* A post whose path names no event type is taken; where it names one, that of the frame counts.
* ``returnAll`` behind a cursor is all that is behind it; a ``limit`` beside it wins.
* Who owns a run or deployed it is asked of nobody. 412 is answered as an injected fault alone.
* Every type but ``run_created`` and a ``run_started`` with creation data needs the run to exist.
* Logs are listed ascending, 1000 events a page, unless asked otherwise. Reading the log of a run that
  does not exist meets 404. Lazily read payloads are left out, with no descriptor in their place.
* The 25000 events a run may have are reported and not enforced.
* An event that names no spec version is of the latest. A run below version 2 takes deliveries of hooks
  and waits, which change nothing but its log, and can be cancelled: with an event by whoever posts one,
  without by the oldest route. Other events meet 400 and ``unsupported-spec-version``.
* Lists of runs and steps begin with the newest, lists of hooks with the oldest: 200, 20 and 20 a page
  unless asked otherwise, never more than 1000. Steps of a run that does not exist are none.
* A read that waits for the end of a run waits 25 s at most. A hook id that several runs use names the
  newest hook. A payload that is no byte string is kept as its CBOR.
* A run whose ``$retention`` is ``0`` loses all payloads when it ends, and those that come late at once.
* What was chosen about streams is told in `routes.streams`.

Source of all else: `@workflow/world-local` 5.0.0-beta.46, and `@workflow/world-vercel` 5.0.0-beta.50 for
what it says about the hosted server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from eventclient.clock import Clock
from eventclient.model.event_specs import Entity
from eventclient.model.ids import ulid_time
from eventclient.wire import spec
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import LogPart, Refused, Written

from .admission import Candidate, admit, check_batch, is_posted_pair
from .cursor import CODE_BAD_CURSOR, decode_cursor, encode_cursor
from .draft import Draft
from .hooks import rule_hook
from .legacy import rule_version
from .notices import Notices
from .ruling import Repeated, Ruling, no_run
from .runs import rule_attributes, rule_run
from .state import LogQuery, LogRow, State, Wanted
from .steps import rule_step
from .store import Decision, Store, T
from .waits import rule_wait

PAGE_SIZE: Final = 1000
CODE_RUN_TIME: Final = "run-id-time"
MAX_RUN_AGE: Final = timedelta(hours=24)
MAX_RUN_LEAD: Final = timedelta(minutes=5)

RULINGS: Final[Mapping[Entity, Callable[[Draft, Candidate], Ruling]]] = {
    Entity.RUN: rule_run,
    Entity.ATTRIBUTES: rule_attributes,
    Entity.STEP: rule_step,
    Entity.WAIT: rule_wait,
    Entity.HOOK: rule_hook,
}
"""Who rules on the events about an entity."""


class Engine:
    """Applies events and reads logs.

    Args:
        store: opened.
        clock: tells what time it is.
        notices: is told of every run whose log has grown; None when nobody listens.
        check_run_time: refuse a ``run_created`` whose run id was minted more than 24 h ago or more than
            5 min ahead.
    """

    def __init__(
        self, store: Store, clock: Clock, notices: Notices | None = None, *, check_run_time: bool = False
    ) -> None:
        self._store = store
        self._clock = clock
        self._notices = notices or Notices()
        self._check_run_time = check_run_time

    async def create(self, run_id: str, posted: PostedEvent) -> Written | Refused:
        """Evaluate one event."""
        now = self._now()
        since = decode_cursor(posted.since_cursor) if posted.since_cursor is not None else None
        if posted.since_cursor is not None and since is None:
            return Refused(400, CODE_BAD_CURSOR, "sinceCursor is no cursor of this server")
        candidate = admit(posted, now)
        if isinstance(candidate, Refused):
            return candidate
        if self._check_run_time and posted.event_type == "run_created" and not is_recent(run_id, now):
            return Refused(400, CODE_RUN_TIME, "the run id was minted too long ago, or ahead, or is no ULID")

        def decide(state: State) -> Decision[Ruling]:
            draft = Draft(run_id, state, now)
            ruling = rule_version(draft, candidate) or RULINGS[candidate.entity](draft, candidate)
            return Decision(ruling, draft.changes())

        ruling = await self._change(want(run_id, [candidate]), decide)
        if isinstance(ruling, Refused):
            return ruling
        written = await self._recall(run_id, ruling) if isinstance(ruling, Repeated) else ruling
        return replace(written, log=await self._log_part(run_id, written, since, posted))

    async def create_batch(
        self, run_id: str, batch: Sequence[PostedEvent]
    ) -> list[Written | Refused] | Refused:
        """Evaluate events in order and commit those that are taken at once: one result for each, or one
        refusal of them all."""
        refused = check_batch(batch)
        if refused is not None:
            return refused
        now = self._now()
        admitted = [admit(posted, now) for posted in batch]
        candidates = [candidate for candidate in admitted if isinstance(candidate, Candidate)]

        def decide(state: State) -> Decision[list[Written | Refused] | Refused]:
            draft = Draft(run_id, state, now)
            refused = _check_run(draft)
            if refused is not None:
                return Decision(refused)
            return Decision(_rule_batch(draft, batch, admitted), draft.changes())

        return await self._change(want(run_id, candidates), decide)

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Rows of a run's log; None when there is no such run."""
        return await self._store.read_log(query)

    async def _change(self, wanted: Wanted, decide: Callable[[State], Decision[T]]) -> T:
        answer = await self._store.change(wanted, decide)
        self._notices.tell(wanted.run_id)
        return answer

    def _now(self) -> datetime:
        now = self._clock.wall()
        # Whole milliseconds are all that the wire carries.
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    async def _recall(self, run_id: str, repeated: Repeated) -> Written:
        query = LogQuery(run_id=run_id, after=repeated.slot - 1, limit=1)
        rows = await self._store.read_log(query) or []
        return Written(rows[0], run=repeated.run, max_events=repeated.max_events)

    async def _log_part(
        self, run_id: str, written: Written, since: int | None, posted: PostedEvent
    ) -> LogPart | None:
        """The delta a cursor asked for, else a report of the slots the poster does not know of, if any."""
        slot = written.row.slot
        if since is not None:
            query = LogQuery(run_id=run_id, after=since, limit=PAGE_SIZE + 1)
        elif posted.max_slot is not None and slot > posted.max_slot + 1:
            after = posted.max_slot
            query = LogQuery(run_id=run_id, after=after, before=slot, limit=PAGE_SIZE + 1)
        else:
            return None
        rows = await self._store.read_log(query) or []
        page = rows[:PAGE_SIZE]
        cursor = None
        if since is not None:
            cursor = encode_cursor(page[-1].event_id) if page else posted.since_cursor
        return LogPart(tuple(page), cursor, has_more=len(rows) > PAGE_SIZE)


def _check_run(draft: Draft) -> Refused | None:
    """Why the run takes no batches; None when it does."""
    if draft.run is None:
        return no_run(draft.run_id)
    if (draft.run.spec_version or 0) < spec.MIN_SLOT_SPEC_VERSION:
        code = spec.CODE_BATCH_REQUIRES_SLOT_IDENTITY
        version = spec.MIN_SLOT_SPEC_VERSION
        return Refused(400, code, f"run {draft.run_id} was created below spec version {version}")
    return None


def _rule_batch(
    draft: Draft, batch: Sequence[PostedEvent], admitted: Sequence[Candidate | Refused]
) -> list[Written | Refused]:
    results: list[Written | Refused] = []
    while len(results) < len(batch):
        index = len(results)
        following = index + 1
        if following < len(batch) and is_posted_pair(batch[index], batch[following]):
            results += _rule_pair(draft, admitted[index], admitted[following])
        else:
            results.append(_rule(draft, admitted[index]))
    return results


def _rule(draft: Draft, candidate: Candidate | Refused) -> Written | Refused:
    if isinstance(candidate, Refused):
        return candidate
    ruling = RULINGS[candidate.entity](draft, candidate)
    if isinstance(ruling, Repeated):
        raise TypeError(f"{candidate.event_type} has a key and is not for batches")
    return ruling


def _rule_pair(
    draft: Draft, first: Candidate | Refused, second: Candidate | Refused
) -> list[Written | Refused]:
    if isinstance(second, Refused):
        return [second, second]
    created = _rule(draft, first)
    if isinstance(created, Refused):
        return [created, created]
    started = _rule(draft, second)
    if isinstance(started, Refused):
        raise TypeError("a step that was just created can always be started")
    return [replace(created, step=started.step), started]


def want(run_id: str, candidates: Iterable[Candidate]) -> Wanted:
    """What has to be loaded to evaluate `candidates`."""
    subjects: dict[Entity, set[str]] = {entity: set() for entity in Entity}
    tokens = set()
    claims = set()
    for candidate in candidates:
        if candidate.correlation_id is not None:
            subjects[candidate.entity].add(candidate.correlation_id)
        if candidate.event_type == "hook_created":
            tokens.add(candidate.data["token"])
        if candidate.key is not None:
            claims.add(candidate.key)
    return Wanted(
        run_id=run_id,
        steps=frozenset(subjects[Entity.STEP]),
        waits=frozenset(subjects[Entity.WAIT]),
        hooks=frozenset(subjects[Entity.HOOK]),
        tokens=frozenset(tokens),
        claims=frozenset(claims),
    )


def is_recent(run_id: str, now: datetime) -> bool:
    """Whether `run_id` holds a ULID minted within the last 24 h or the next 5 min."""
    minted = ulid_time(run_id)
    return minted is not None and now - MAX_RUN_AGE <= minted <= now + MAX_RUN_LEAD
