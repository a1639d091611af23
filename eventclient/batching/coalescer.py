"""Single writes that wait for company. Pure: time is an argument, nothing is sent here."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Queue(Generic[T]):
    items: deque[T] = field(default_factory=deque)
    due: float = 0.0
    in_flight: bool = False


class Coalescer(Generic[T]):
    """Queues items per run and says which of them go together next.

    A run has at most one batch under way. What is added meanwhile waits and goes together in the next one;
    without a batch under way, items wait `linger_s` for company, or until `max_events` are there.
    """

    __slots__ = ("_linger_s", "_max_events", "_runs")

    def __init__(self, *, max_events: int, linger_s: float) -> None:
        self._max_events = max_events
        self._linger_s = linger_s
        self._runs: OrderedDict[str, _Queue[T]] = OrderedDict()

    def __len__(self) -> int:
        """Items that wait."""
        return sum(len(queue.items) for queue in self._runs.values())

    def add(self, run_id: str, item: T, now: float) -> None:
        """Queue `item` behind the others of its run."""
        queue = self._runs.setdefault(run_id, _Queue())
        if not queue.items:
            queue.due = now + self._linger_s
        queue.items.append(item)
        if len(queue.items) >= self._max_events:
            queue.due = now

    def discard(self, run_id: str, item: T) -> bool:
        """Take `item` out again; False if it does not wait any more."""
        queue = self._runs.get(run_id)
        if queue is None or item not in queue.items:
            return False
        queue.items.remove(item)
        self._forget(run_id, queue)
        return True

    def get_timer(self) -> float | None:
        """When to call `handle_timer`; None while nothing waits for time to pass."""
        return min(
            (queue.due for queue in self._runs.values() if queue.items and not queue.in_flight), default=None
        )

    def handle_timer(self, now: float) -> list[tuple[str, list[T]]]:
        """The batches that are due at `now`, each with its run; `done` must follow for each."""
        batches = []
        for run_id, queue in self._runs.items():
            if queue.items and not queue.in_flight and queue.due <= now:
                queue.in_flight = True
                # All of it: whoever cuts it into requests must see which events belong together.
                batches.append((run_id, list(queue.items)))
                queue.items.clear()
        return batches

    def done(self, run_id: str, now: float) -> None:
        """The batch of `run_id` has ended; what gathered meanwhile is due at once."""
        queue = self._runs[run_id]
        queue.in_flight = False
        queue.due = now
        self._forget(run_id, queue)

    def flush(self, now: float) -> None:
        """Everything that waits is due at once."""
        for queue in self._runs.values():
            queue.due = min(queue.due, now)

    def drain(self) -> list[T]:
        """Take out everything that waits."""
        left = [item for queue in self._runs.values() for item in queue.items]
        for run_id, queue in list(self._runs.items()):
            queue.items.clear()
            self._forget(run_id, queue)
        return left

    def _forget(self, run_id: str, queue: _Queue[T]) -> None:
        if not queue.items and not queue.in_flight:
            del self._runs[run_id]
