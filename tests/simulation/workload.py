"""The callers: what they write, all at once, and when they give up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import cast

from eventclient import BatchResult, EventClient, EventClientError, Receipt
from eventclient.client.writer import EventWriter

from .events import EventMaker
from .loop import VirtualLoop
from .plan import Plan
from .submission import Book, Call, Reading, Submission, Way
from .trace import Trace


class Workload:
    """Callers of one client.

    Args:
        has_seen_support: whether the client has been told by now that keys are honoured.
    """

    def __init__(
        self,
        plan: Plan,
        client: EventClient,
        runs: Sequence[str],
        maker: EventMaker,
        chance: Random,
        trace: Trace,
        has_seen_support: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._client = client
        self._writer: EventWriter = client.writer(linger_s=chance.choice((0.0, 0.0, 0.02)))
        self._runs = runs
        self._maker = maker
        self._chance = chance
        self._trace = trace
        self._has_seen_support = has_seen_support
        self._begun = 0
        self.book = Book()

    async def open_runs(self) -> None:
        """Create the runs."""
        for run_id in self._runs:
            call = self._note("opener", Way.CREATE, run_id, [self._maker.create_run(self._plan.run_version)])
            await self._perform(call)

    async def work(self) -> None:
        """Let all callers do what they do, to the end."""
        loop = asyncio.get_running_loop()
        callers = [loop.create_task(self._caller(number)) for number in range(self._plan.caller_count)]
        if self._plan.closes_early:
            callers.append(loop.create_task(self._close_early()))
        await asyncio.gather(*callers)

    async def close(self) -> None:
        """Close the client."""
        self.book.left += await self._client.aclose(self._chance.choice((None, 5.0)))

    async def _close_early(self) -> None:
        await asyncio.sleep(self._chance.choice((0.1, 1.0, 10.0)) * self._chance.random())
        self.book.is_closed_early = True
        self._trace.note("closer", "closes the client")
        self.book.left += await self._client.aclose(self._chance.choice((None, 0.0, 0.05, 2.0)))

    async def _caller(self, number: int) -> None:
        name = f"caller {number}"
        chance = self._chance
        starts = list(self._runs) if number == 0 else []
        for _ in range(chance.randint(1, self._plan.max_calls)):
            await asyncio.sleep(chance.choice((0.0, 0.05, 0.05, 2.0)) * chance.random())
            if starts:
                run_id = starts.pop()
                await self._together([self._note(name, Way.CREATE, run_id, [self._maker.start_run()])])
                continue
            await self._act(name, chance.choice(self._runs))

    async def _act(self, name: str, run_id: str) -> None:
        chance, maker = self._chance, self._maker
        choice = chance.random()
        if choice < 0.1:
            await self._read(run_id)
        elif choice < 0.4:
            await self._together([self._note(name, Way.CREATE, run_id, maker.make(run_id)[:1])])
        elif choice < 0.8:
            made = [one for _ in range(chance.randint(1, 5)) for one in maker.make(run_id)]
            concurrency = chance.choice((1, 1, 1, 3))
            await self._together([self._note(name, Way.BATCH, run_id, made, concurrency)])
        else:
            made = [one for _ in range(chance.randint(1, 4)) for one in maker.make(run_id)]
            await self._together([self._note(name, Way.WRITER, run_id, [one]) for one in made])

    def _note(
        self, name: str, way: Way, run_id: str, made: Sequence[Submission], concurrency: int = 1
    ) -> Call:
        call = Call(len(self.book.calls) + 1, name, way, run_id, made, concurrency)
        self.book.calls.append(call)
        return call

    async def _together(self, calls: Sequence[Call]) -> None:
        """Make `calls` at the same time; some of them are given up."""
        chance, loop = self._chance, cast(VirtualLoop, asyncio.get_running_loop())
        tasks = [loop.create_task(self._perform(call)) for call in calls]
        for task in tasks:
            if chance.random() < self._plan.cancels:
                loop.call_after_steps(int(chance.choice((4, 40, 400)) * chance.random()), task.cancel)
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _perform(self, call: Call) -> None:
        self._begun += 1
        call.began, call.began_s = self._begun, asyncio.get_running_loop().time()
        self._trace.note(call.caller, "{}: {}", call, ", ".join(map(str, call.submissions)))
        try:
            receipts = await self._write(call)
            call.take(receipts)
            call.ledger = receipts.ledger if isinstance(receipts, BatchResult) else None
        except EventClientError as error:
            call.error = error
            call.ledger = error.ledger if call.way is not Way.WRITER else None
            call.take(error.receipts)
        except asyncio.CancelledError as error:
            call.is_cancelled = True
            call.take(getattr(error, "receipts", ()))
        call.ended_s = asyncio.get_running_loop().time()
        call.has_seen_support = self._has_seen_support()
        outcomes = [one.receipt.outcome.value if one.receipt else "?" for one in call.submissions]
        how = type(call.error).__name__ if call.error else "returns"
        self._trace.note(call.caller, "{}: {}, {}", call, how, ", ".join(outcomes))

    def _write(self, call: Call) -> Awaitable[Sequence[Receipt]]:
        if call.way is Way.BATCH:
            events = [submission.event for submission in call.submissions]
            return self._client.create_batch(call.run_id, events, concurrency=call.concurrency)
        (submission,) = call.submissions
        if call.way is Way.CREATE:
            return _as_one(self._client.create(call.run_id, submission.event))
        return _as_one(self._writer.create(call.run_id, submission.event))

    async def _read(self, run_id: str) -> None:
        began_s = asyncio.get_running_loop().time()
        try:
            events = await self._client.read_log(run_id)
        except EventClientError as error:
            self._trace.note("reader", "{}", type(error).__name__)
            return
        self.book.readings.append(Reading(run_id, began_s, events))


async def _as_one(receipt: Awaitable[Receipt]) -> Sequence[Receipt]:
    return (await receipt,)
