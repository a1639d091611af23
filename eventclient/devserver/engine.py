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
* Of the ``x-wf`` headers of an answer to a post there are ``x-wf-event-id`` and ``x-wf-max-events``, no
  others.
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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from eventclient.clock import Clock
from eventclient.model.ids import ulid_time
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import LogPart, Refused, Written

from .cursor import CODE_BAD_CURSOR, decode_cursor, encode_cursor
from .evaluation import Answer, Evaluation, Plan, plan_batch, plan_event
from .idempotency import Idempotency
from .notices import Notices
from .ruling import Repeated, Ruling
from .state import Key, LogQuery, LogRow, State
from .store import Decision, Store

PAGE_SIZE: Final = 1000
CODE_RUN_TIME: Final = "run-id-time"
MAX_RUN_AGE: Final = timedelta(hours=24)
MAX_RUN_LEAD: Final = timedelta(minutes=5)


class Engine:
    """Applies events and reads logs.

    Args:
        store: opened.
        clock: tells what time it is.
        notices: is told of every run whose log has grown; None when nobody listens.
        idempotency: executes what carries a key; None makes one with the usual options.
        check_run_time: refuse a ``run_created`` whose run id was minted more than 24 h ago or more than
            5 min ahead.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        notices: Notices | None = None,
        idempotency: Idempotency | None = None,
        *,
        check_run_time: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._notices = notices or Notices()
        self._check_run_time = check_run_time
        self._idempotency = idempotency or Idempotency(store, clock, self._notices)

    async def create(self, run_id: str, posted: PostedEvent) -> Written | Refused:
        """Evaluate one event."""
        return (await self.answer(run_id, posted, None)).result

    async def answer(self, run_id: str, posted: PostedEvent, key: Key | None) -> Answer[Written | Refused]:
        """Evaluate one event, under a key at most once."""
        now = self._now()
        since = decode_cursor(posted.since_cursor) if posted.since_cursor is not None else None
        if posted.since_cursor is not None and since is None:
            return Answer(Refused(400, CODE_BAD_CURSOR, "sinceCursor is no cursor of this server"))
        plan = plan_event(run_id, posted, now)
        if isinstance(plan, Refused):
            return Answer(plan)
        if self._check_run_time and posted.event_type == "run_created" and not is_recent(run_id, now):
            # Not at once: under its key it may have been created while its id was recent.
            plan = replace(plan, decide=_refuse_run_time)
        met = await self._meet(run_id, plan, key)
        if met.result.refused is not None:
            return Answer(met.result.refused, met.is_replayed)
        (result,) = await self._results(run_id, met.result.rulings)
        # An answer that is recorded is the same each time, however the log has grown meanwhile.
        end = None if key is None else met.result.last_slot + 1
        if isinstance(result, Written):
            result = replace(result, log=await self._log_part(run_id, result, since, posted, end))
        return Answer(result, met.is_replayed, end)

    async def answer_batch(
        self, run_id: str, batch: Sequence[PostedEvent], key: Key | None
    ) -> Answer[list[Written | Refused] | Refused]:
        """Evaluate events in order and commit those that are taken at once, under a key at most once: one
        result for each, or one refusal of them all."""
        plan = plan_batch(run_id, batch, self._now())
        if isinstance(plan, Refused):
            return Answer(plan)
        met = await self._meet(run_id, plan, key)
        if met.result.refused is not None:
            return Answer(met.result.refused, met.is_replayed)
        return Answer(await self._results(run_id, met.result.rulings), met.is_replayed)

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Rows of a run's log; None when there is no such run."""
        return await self._store.read_log(query)

    async def _meet(self, run_id: str, plan: Plan, key: Key | None) -> Answer[Evaluation]:
        if key is not None:
            return await self._idempotency.execute(run_id, key, plan)
        met = Answer(await self._store.change(plan.wanted, plan.decide))
        self._notices.tell(run_id)
        return met

    def _now(self) -> datetime:
        now = self._clock.wall()
        # Whole milliseconds are all that the wire carries.
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    async def _results(self, run_id: str, rulings: Sequence[Ruling]) -> list[Written | Refused]:
        """The rulings with the rows that some of them only name."""
        slots = [ruling.slot for ruling in rulings if isinstance(ruling, Repeated)]
        rows: dict[int, LogRow] = {}
        if slots:
            query = LogQuery(run_id=run_id, after=min(slots) - 1, before=max(slots) + 1)
            rows = {row.slot: row for row in await self._store.read_log(query) or []}
        return [_recalled(ruling, rows) if isinstance(ruling, Repeated) else ruling for ruling in rulings]

    async def _log_part(
        self, run_id: str, written: Written, since: int | None, posted: PostedEvent, end: int | None
    ) -> LogPart | None:
        """The delta a cursor asked for, up to the slot `end`, else a report of the slots the poster does not
        know of, if any."""
        slot = written.row.slot
        if since is not None:
            query = LogQuery(run_id=run_id, after=since, before=end, limit=PAGE_SIZE + 1)
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


def _refuse_run_time(state: State) -> Decision[Evaluation]:
    reason = "the run id was minted too long ago, or ahead, or is no ULID"
    return Decision(Evaluation((), state.last_slot, Refused(400, CODE_RUN_TIME, reason)))


def _recalled(ruling: Repeated, rows: Mapping[int, LogRow]) -> Written:
    return Written(
        rows[ruling.slot],
        run=ruling.run,
        step=ruling.step,
        hook=ruling.hook,
        wait=ruling.wait,
        step_created=ruling.step_created,
        max_events=ruling.max_events,
    )


def is_recent(run_id: str, now: datetime) -> bool:
    """Whether `run_id` holds a ULID minted within the last 24 h or the next 5 min."""
    minted = ulid_time(run_id)
    return minted is not None and now - MAX_RUN_AGE <= minted <= now + MAX_RUN_LEAD
