"""One seed, from its plan to its verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from eventclient import ClientOptions, EventClient
from eventclient.devserver.state import LogQuery

from .clock import WorldClock
from .database import Database
from .events import EventMaker
from .loop import StuckError, VirtualLoop
from .network import Network
from .plan import Kind, Plan, make_plan
from .site import Site
from .submission import Book
from .trace import Trace
from .verdict import Logs, judge
from .workload import Workload

MAX_CRASHES: Final = 2


@dataclass(slots=True)
class Report:
    """What came of a seed.

    Attributes:
        violations: what must not be, in words; empty when all is well.
        counts: how often each thing happened that a simulation is worth running for.
    """

    plan: Plan
    violations: list[str]
    trace: Trace
    lines: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=Counter)

    def __str__(self) -> str:
        seed, kind = self.plan.seed, self.plan.kind
        told = "\n".join([*self.lines, *(f"VIOLATED: {violation}" for violation in self.violations)])
        return (
            f"seed {seed}, {kind} server: {self.plan}\n{told}\n"
            f"again: python -m tests.simulation --seed {seed} --kind {kind} --trace"
        )


class World:
    """Everything there is in a seed."""

    def __init__(self, plan: Plan) -> None:
        def chance(of: str) -> Random:
            return Random(f"{plan.seed} {of}")

        self.plan = plan
        self.trace = Trace()
        self.loop = VirtualLoop(chance("loop"))
        self.mishaps: list[str] = []
        self.logs: Logs = {}
        self.book = Book()
        self.loop.set_exception_handler(self._heard)
        self._chance = chance
        self._network: Network | None = None
        self._crashes = 0

    async def live(self) -> None:
        """Let everything happen, until nothing more can."""
        plan, chance, trace = self.plan, self._chance, self.trace
        clock = WorldClock(chance("clock"))
        self._network = network = Network(plan, chance("network"), trace)
        database = Database(plan, chance("database"), trace)
        network.site = site = Site(plan, database, clock, chance("site"), trace, network.may_hurt)
        keys = chance("keys")
        options = ClientOptions(
            retry=plan.retry,
            batch=plan.batch,
            max_batch_events=plan.max_batch_events,
            clock=clock,
            mint_key=lambda: f"{keys.getrandbits(64):016x}",
        )
        client = EventClient.over(network, options=options)
        maker = EventMaker(chance("events"), has_disposals=plan.honours_keys)
        runs = [f"wrun_01M8N3CBJFGCK98VP8CKHQXT{number:02d}" for number in range(plan.run_count)]
        workload = Workload(
            plan, client, runs, maker, chance("workload"), trace, lambda: network.has_seen_support
        )
        self.book = workload.book
        await site.start()
        await workload.open_runs()
        network.is_kind = database.is_kind = site.is_kind = False
        await self._let_crash(site, network, workload)
        await workload.close()
        await network.settle()
        # Holders that oversleep wake up, and leases end.
        await asyncio.sleep(3 * plan.keys.lease_s + 60.0)
        database.is_kind = True
        for run_id in runs:
            self.logs[run_id] = await database.read_log(LogQuery(run_id=run_id)) or []
        await database.shut()

    async def _let_crash(self, site: Site, network: Network, workload: Workload) -> None:
        """Let the callers work, and servers crash for as long as they do."""
        work = self.loop.create_task(workload.work())
        chance = self._chance("crashes")
        while self.plan.crash_every_steps and self._crashes < MAX_CRASHES:
            due = self.loop.create_future()
            pause = 1 + int(chance.expovariate(1.0 / self.plan.crash_every_steps))
            self.loop.call_after_steps(pause, partial(due.set_result, None))
            done, _ = await asyncio.wait([work, due], return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                break
            if network.may_crash():
                self._crashes += 1
                down_s = 0.0 if self.plan.is_gentle else chance.choice((0.0, 2.0)) * chance.random()
                if self.plan.power_fails and self._crashes == 1:
                    await site.lose_power(down_s)
                else:
                    await site.replace(chance.choice(site.servers), down_s)
        await work

    def judge(self) -> list[str]:
        """What must not be."""
        mishaps = list(self.mishaps)
        mishaps += [f"a task never ended: {task.get_coro()}" for task in self.loop.unfinished()]
        mishaps += [f"nobody looked at {error!r}" for error in self.loop.unread_failures()]
        return mishaps + list(judge(self.plan, self.book, self.logs))

    def counts(self) -> Counter[str]:
        """How often what happened."""
        counts: Counter[str] = Counter({"calls": len(self.book.calls), "crashes": self._crashes})
        if self._network is not None:
            counts["answers replayed"] = self._network.replays
            counts["answers collected"] = self._network.collections
        for call in self.book.calls:
            for submission in call.submissions:
                if submission.receipt is not None:
                    counts[f"{self.plan.kind}: {submission.receipt.outcome}"] += 1
        return counts

    def _heard(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.mishaps.append(f"{context['message']}: {context.get('exception')!r}")


def run_seed(seed: int, kind: Kind | None = None) -> Report:
    """Play `seed`, with another `kind` of server than it would choose if one is given."""
    world = World(make_plan(seed, kind))
    with _quiet():
        try:
            world.loop.run_until_complete(world.live())
            violations = world.judge()
        except StuckError as error:
            violations = [f"stuck: {error}; {task_names(world)}"]
        except Exception:  # noqa: BLE001 - whatever fails, what led to it is told
            violations = [traceback.format_exc()]
        world.loop.set_exception_handler(lambda *_: None)
        world.loop.bury()
    lines = list(world.trace.lines()) if violations else []
    return Report(world.plan, violations, world.trace, lines, world.counts())


def task_names(world: World) -> str:
    """What had not ended."""
    return "; ".join(str(task.get_coro()) for task in world.loop.unfinished())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without log lines: client and server warn of what happens to them, which is what this is for."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    # When garbage is collected must not depend on what else there is.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        logging.disable(before)
        if is_collecting:
            gc.enable()
