"""Posting planned runs through a client, one run after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import groupby, pairwise

from eventclient.client.client import EventClient
from eventclient.clock import Clock
from eventclient.errors import (
    AuthenticationError,
    EventClientError,
    NotFoundError,
    RejectedError,
    ThrottleError,
)
from eventclient.model.outcomes import Receipt
from eventclient.recordings.order import Posting, RunPlan

from .report import ReplayReport, RunReport, Settled, settle
from .stretches import stretches


class RunTakenError(EventClientError):
    """The server already holds events of a run that was to be replayed. Nothing was written.

    Attributes:
        run_ids: all such runs.
    """

    def __init__(self, run_ids: Sequence[str]) -> None:
        held = (
            f"run {run_ids[0]}" if len(run_ids) == 1 else f"{len(run_ids)} of the runs: {', '.join(run_ids)}"
        )
        super().__init__(f"the server already holds {held}; nothing was written")
        self.run_ids = tuple(run_ids)


async def check_runs_are_free(client: EventClient, run_ids: Iterable[str]) -> None:
    """Makes sure that the server holds no event of any of the runs. Writes nothing.

    Raises:
        RunTakenError: names the runs it does hold.
        EventClientError: the server could not be read.
    """
    taken = [run_id for run_id in run_ids if await _holds_events(client, run_id)]
    if taken:
        raise RunTakenError(taken)


async def _holds_events(client: EventClient, run_id: str) -> bool:
    pages = client.list_events(run_id, limit=1)
    try:
        # Closed here, because only the first page is read.
        async with aclosing(pages):
            first = await anext(pages, None)
    except NotFoundError:
        return False
    return first is not None and bool(first.events)


def _watch_nothing(_: Settled) -> None:
    pass


class Replay:
    """One replay of planned runs. `report` is true at any moment, also after a cancellation."""

    def __init__(
        self,
        client: EventClient,
        plans: Sequence[RunPlan],
        *,
        clock: Clock,
        on_settled: Callable[[Settled], None] = _watch_nothing,
    ) -> None:
        """Nothing is sent yet.

        Args:
            client: where to post.
            plans: the runs, in the order to post them in.
            clock: tells how long it took.
            on_settled: told of each event's end, in order.
        """
        self.report = ReplayReport([RunReport(plan) for plan in plans])
        self._client = client
        self._clock = clock
        self._on_settled = on_settled

    async def run(self) -> ReplayReport:
        """Posts every run.

        A refused event is an end like any other, and the next event follows. An error that the
        following events would meet too (a spent throttle budget, a lost connection, a token that is
        not accepted) stops the replay; the report names it and holds what was settled until then.

        Raises:
            RunTakenError: the server holds one of the runs; nothing was written.
            EventClientError: the server could not be asked about that.
        """
        await check_runs_are_free(self._client, [run.plan.run_id for run in self.report.runs])
        for run in self.report.runs:
            started = self._clock.now()
            try:
                await self._post_run(run)
            except EventClientError as error:
                self.report.stopped = error
                break
            finally:
                run.seconds = self._clock.now() - started
        return self.report

    async def _post_run(self, run: RunReport) -> None:
        for stretch in stretches(run.plan.postings):
            if stretch[0].resume_id is not None:
                await self._post_delivery(run, stretch[0])
            else:
                await self._post_stretch(run, stretch)

    async def _post_stretch(self, run: RunReport, stretch: Sequence[Posting]) -> None:
        try:
            result = await self._client.create_batch(run.plan.run_id, [item.event for item in stretch])
        except EventClientError as error:
            if error.ledger is not None:
                run.requests += error.ledger.requests
                run.throttled_seconds += error.ledger.throttled_s
            self._settle(run, stretch, error.receipts)
            raise
        except asyncio.CancelledError as error:
            # The client leaves on it what was settled when the call was broken off.
            self._settle_failure(run, stretch, getattr(error, "receipts", ()))
            raise
        run.requests += result.ledger.requests
        run.throttled_seconds += result.ledger.throttled_s
        self._settle(run, stretch, result)

    async def _post_delivery(self, run: RunReport, posting: Posting) -> None:
        try:
            receipt = await self._client.create(
                run.plan.run_id,
                posting.event,
                resume_id=posting.resume_id,
                resume_payload_digest=posting.resume_payload_digest,
            )
        except EventClientError as error:
            self._settle_failure(run, [posting], error.receipts)
            if isinstance(error, AuthenticationError) or not isinstance(error, RejectedError):
                raise
            return
        self._count_attempts(run, [receipt])
        self._settle(run, [posting], [receipt])

    def _settle_failure(
        self, run: RunReport, stretch: Sequence[Posting], receipts: Sequence[Receipt]
    ) -> None:
        self._count_attempts(run, receipts)
        self._settle(run, stretch, receipts)

    def _settle(self, run: RunReport, stretch: Iterable[Posting], receipts: Iterable[Receipt]) -> None:
        # An error that was raised before anything was sent carries no receipts, hence not strict.
        for posting, receipt in zip(stretch, receipts, strict=False):
            item = settle(run.plan.run_id, len(run.settled), posting, receipt)
            run.settled.append(item)
            self._on_settled(item)

    def _count_attempts(self, run: RunReport, receipts: Iterable[Receipt]) -> None:
        """Requests and waits from the receipts, where no ledger came.

        The receipts of one request stand side by side and tell the same attempts.
        """
        for attempts, _ in groupby(receipts, key=lambda receipt: receipt.attempts):
            run.requests += len(attempts)
            for before, after in pairwise(attempts):
                if before.status == ThrottleError.status:
                    run.throttled_seconds += after.wait_s
