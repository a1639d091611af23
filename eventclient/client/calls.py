"""Calls under way: counted, ended by closing, and true about what they leave behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

from eventclient.errors import EventClientError, TransportError
from eventclient.model.outcomes import Outcome, Receipt

logger: Final = logging.getLogger("eventclient")

MAX_UNCONFIRMED: Final = 10_000

Receipts = Callable[[], tuple[Receipt, ...]]


class Calls:
    """The calls of one client.

    Attributes:
        unconfirmed: receipts of events whose call was cancelled or ended by closing before they were settled.
    """

    def __init__(self) -> None:
        self.unconfirmed: list[Receipt] = []
        self.closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def call(self, run_id: str, receipts: Receipts, *, late: bool = False) -> _Call:
        """A context for one call; `receipts` says at any moment how its events stand.

        It attaches the receipts to whatever ends the call, and turns the interruption by closing into a
        TransportError. A `late` call is one of those that closing itself waits for.
        """
        return _Call(self, run_id, receipts, late)

    async def finish(self, deadline: float | None) -> None:
        """Wait for the calls under way until `deadline` (loop time), then end them."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._idle.wait()
        except TimeoutError:
            # Each once, also when two close at a time: `leave` takes back one cancellation.
            for task in self._tasks - self._interrupted:
                self._interrupted.add(task)
                task.cancel()
            await self._idle.wait()

    def keep(self, receipts: Sequence[Receipt]) -> None:
        """Note what of `receipts` is not settled."""
        left = [receipt for receipt in receipts if receipt.outcome in (Outcome.UNKNOWN, Outcome.UNSENT)]
        room = MAX_UNCONFIRMED - len(self.unconfirmed)
        if len(left) > room:
            logger.warning("%d receipts of broken off writes are not kept", len(left) - room)
        self.unconfirmed += left[:room]

    def take_unconfirmed(self) -> tuple[Receipt, ...]:
        """What was noted; it is forgotten here."""
        left, self.unconfirmed = tuple(self.unconfirmed), []
        return left

    def enter(self, late: bool) -> asyncio.Task[Any]:
        """Count the current task in."""
        if self.closing and not late:
            raise TransportError("the client is closed: nothing was sent", ambiguous=False)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a client is used outside of a task")
        self._tasks.add(task)
        self._idle.clear()
        return task

    def leave(self, task: asyncio.Task[Any]) -> bool:
        """Count `task` out. Returns whether closing cancelled it, and nobody else."""
        self._tasks.discard(task)
        if not self._tasks:
            self._idle.set()
        if task not in self._interrupted:
            return False
        self._interrupted.discard(task)
        return task.uncancel() == 0


class _Call:
    __slots__ = ("_calls", "_late", "_receipts", "_run_id", "_task")

    def __init__(self, calls: Calls, run_id: str, receipts: Receipts, late: bool) -> None:
        self._calls = calls
        self._run_id = run_id
        self._receipts = receipts
        self._late = late
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        try:
            self._task = self._calls.enter(self._late)
        except TransportError as error:
            error.run_id, error.receipts = self._run_id, self._receipts()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = self._task is not None and self._calls.leave(self._task)
        if error is None:
            return
        if isinstance(error, EventClientError):
            error.run_id = error.run_id or self._run_id
            error.receipts = self._receipts()
        elif isinstance(error, asyncio.CancelledError):
            receipts = self._receipts()
            self._calls.keep(receipts)
            if interrupted:
                unknown = any(receipt.outcome is Outcome.UNKNOWN for receipt in receipts)
                closed = TransportError(
                    "the client was closed during the call", ambiguous=unknown, run_id=self._run_id
                )
                closed.receipts = receipts
                raise closed from None
            # Whoever catches the cancellation finds the outcomes on it, as on any error of a write.
            vars(error)["receipts"] = receipts
