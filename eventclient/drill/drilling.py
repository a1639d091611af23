"""A drill from its plan to its report."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eventclient.client import environment
from eventclient.client.client import EventClient
from eventclient.client.options import ClientOptions
from eventclient.client.transport import AiohttpTransport
from eventclient.clock import Clock, SystemClock
from eventclient.errors import ConfigurationError
from eventclient.model.outcomes import Outcome
from eventclient.wire import spec

from .counting import Counts
from .course import Course, Courses
from .faults import FAULT_OF, FAULTS, Fault
from .grounds import Ground, mint_run_ids, prepare_run
from .injection import FaultTransport
from .performing import in_parallel, perform
from .plan import DrillOptions, Operation, plan_operations
from .report import DrillReport, FaultTally, Schedule, Violation
from .stalls import Stalls
from .verdict import judge, subject_of

MOST_ALONE: Final = 5
"""How many of the operations that violate something are made once more, alone."""
COLLECT_S: Final = 60.0
"""How long a client waits for the result of one operation on the drill's own server."""
NOT_OURS: Final = "needs the drill's own server"

OnDone = Callable[[str], None]
"""Is told the run of every operation that is over."""


def _nobody(run_id: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class _Round:
    """Operations that were made together, and what the logs hold of them."""

    courses: tuple[Course, ...]
    counts: Counts
    violations: tuple[Violation, ...]


class Drill:
    """One drill.

    Args:
        ground: where it takes place.
        options: how large it is.
        clock: tells what time it is.
        on_done: see `OnDone`.
    """

    def __init__(
        self, ground: Ground, options: DrillOptions, *, clock: Clock | None = None, on_done: OnDone = _nobody
    ) -> None:
        self._ground = ground
        self._options = options
        self._clock = clock or SystemClock()
        self._on_done = on_done

    async def run(self) -> DrillReport:
        """Make the operations, count, and find the shortest schedule of what went wrong.

        Raises:
            ConfigurationError: the server cannot be used.
            EventClientError: a log could not be read.
        """
        if not environment.batching_enabled():
            raise ConfigurationError(f"batches are a part of a drill: unset ${spec.KILL_SWITCH}")
        started = self._clock.now()
        operations = plan_operations(self._options, own=self._ground.own)
        done = await self._make(operations, self._on_done)
        if not any(done.counts.executions(item.effects())[1] for item in operations):
            raise ConfigurationError("the server executed none of the operations: there is nothing to count")
        schedule = await self._shortest(done)
        elapsed_s = self._clock.now() - started
        return _report(done, schedule, self._options.seed, elapsed_s, own=self._ground.own)

    async def _make(self, operations: Sequence[Operation], on_done: OnDone) -> _Round:
        run_count = -(-len(operations) // self._options.run_ops)
        run_ids = mint_run_ids(run_count, self._clock.wall(), secrets.randbits(80))
        courses = Courses([Course(item, run_ids[item.index % run_count]) for item in operations])
        steps: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
        for course in courses.all:
            steps[course.run_id] += course.operation.steps()
        stalls = Stalls(courses, self._clock)

        async def make(course: Course) -> None:
            await perform(client, course)
            on_done(course.run_id)

        at_once = self._options.concurrency
        async with self._ground.under_fire(stalls) as url, self._client(url, courses) as client:
            await in_parallel(at_once, run_ids, lambda run_id: prepare_run(client, run_id, steps[run_id]))
            await in_parallel(at_once, courses.all, make)
        counts = Counts()
        async with self._ground.at_peace() as url, self._client(url, courses) as client:
            for run_id in run_ids:
                counts.add(run_id, await client.read_log(run_id))
        return _Round(courses.all, counts, judge(courses.all, counts, own=self._ground.own))

    def _client(self, url: str, courses: Courses) -> EventClient:
        # A fault may take a second connection for the same operation.
        options = ClientOptions(
            clock=self._clock,
            mint_key=courses.mint_key,
            max_connections=2 * self._options.concurrency,
        )
        # Claims of the drill's own server are short, and one that is held for ever is to be told soon. One
        # that cannot be held up is still at work only if the client hurries.
        if self._ground.own:
            retry = replace(options.retry, collect_budget_s=COLLECT_S)
        else:
            retry = replace(options.retry, backoff_s=0.0)
        options = replace(options, retry=retry)
        transport = FaultTransport(AiohttpTransport(options), self._clock, own=self._ground.own)
        return EventClient.over(transport, url, token=self._ground.token, options=options)

    async def _shortest(self, done: _Round) -> Schedule | None:
        """The violation that shows in the fewest steps: alone, if one does."""
        guilty = _guilty(done)
        courses = [course for course in done.courses if course.operation.index in guilty]
        courses.sort(key=lambda course: len(course.steps))
        if self._ground.own:
            for course in courses[:MOST_ALONE]:
                again = await self._make((course.operation,), _nobody)
                if _guilty(again):
                    return _schedule(again.courses[0], again, alone=True)
        return _schedule(courses[0], done, alone=False) if courses else None


def _guilty(done: _Round) -> set[int | None]:
    """The operations that show that somebody did wrong."""
    return {violation.operation for violation in done.violations if not violation.is_hollow}


def _schedule(course: Course, done: _Round, *, alone: bool) -> Schedule:
    index = course.operation.index
    ends = [item.told for item in done.violations if item.operation == index]
    _, most = done.counts.executions(course.operation.effects())
    counted = f"the log holds {most} {'effect' if most == 1 else 'effects'} of the key"
    steps = (*course.steps, counted, *(f"violation: {end}" for end in ends))
    return Schedule(index, subject_of(course), steps, alone)


def _report(
    done: _Round, schedule: Schedule | None, seed: int, elapsed_s: float, *, own: bool
) -> DrillReport:
    effects = [0, 0, 0]
    for course in done.courses:
        _, most = done.counts.executions(course.operation.effects())
        effects[min(most, 2)] += 1
    return DrillReport(
        seed=seed,
        operations=len(done.courses),
        deliveries=sum(course.deliveries for course in done.courses),
        faults={fault: _tally(fault, done.courses, own=own) for fault in FAULTS},
        effects=(effects[0], effects[1], effects[2]),
        replays=sum(course.replays for course in done.courses),
        unknown=sum(Outcome.UNKNOWN in course.outcomes for course in done.courses),
        violations=done.violations,
        schedule=schedule,
        elapsed_s=elapsed_s,
    )


def _tally(fault: Fault, courses: Sequence[Course], *, own: bool) -> FaultTally:
    ways = [
        course
        for course in courses
        if course.operation.way is not None and FAULT_OF[course.operation.way] is fault
    ]
    reason = None if own or FAULTS[fault].elsewhere else NOT_OURS
    return FaultTally(len(ways), sum(course.is_injected for course in ways), reason)
