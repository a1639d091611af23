"""What a store has to be: how a change is made, and what can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from eventclient.model.entities import Hook, Run, Step

from .state import Changes, KeyChanges, LogQuery, LogRow, State, Wanted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """What came of looking at a state: an answer, and what has to be saved before it may be given."""

    answer: T
    changes: Changes | KeyChanges | None = None


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """An entity in a list.

    Attributes:
        position: grows in the order in which the entities of a kind came to be.
    """

    position: int
    entity: T


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which part of a list to read.

    Attributes:
        after: only positions behind this one, in the order asked for.
        limit: most entities.
    """

    after: int | None = None
    limit: int = 1
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery(ListQuery):
    """Which runs; None is any."""

    run_id: str | None = None
    workflow_name: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuery(ListQuery):
    """Which steps of a run; None is any."""

    run_id: str
    step_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookQuery(ListQuery):
    """Which hooks; None is any."""

    run_id: str | None = None
    hook_id: str | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQuery:
    """Which chunks of a stream.

    Attributes:
        start: index of the first; below zero it counts from the end, -1 being the last chunk.
        limit: most chunks; None reads them all.
    """

    run_id: str
    name: str
    start: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Chunks of a stream, and how far it goes.

    Attributes:
        start: index of the first of `chunks`, or where it would be.
        chunk_count: how many chunks the stream has in all; 0 when nobody wrote to it yet.
        closed: nothing will be added.
    """

    start: int
    chunks: tuple[bytes, ...]
    chunk_count: int
    closed: bool


class StoreUnavailableError(Exception):
    """The database cannot be used at the moment, and no change is to blame. Nothing was written."""


class CommitLostError(Exception):
    """The connection broke while the commit was under way: it happened or it did not, and nobody knows."""


class StreamExpiredError(Exception):
    """The payloads of the run are gone, so its streams take nothing more. Nothing was written.

    Attributes:
        expired_at: since when they are gone.
    """

    def __init__(self, expired_at: datetime) -> None:
        super().__init__(f"the run has expired at {expired_at.isoformat()}")
        self.expired_at = expired_at


class Store(Protocol):
    """Keeps runs, their logs and their streams.

    What it answers is committed, and as durable as the store promises. A read sees all of a change or
    none of it, so the part of a log that it sees is whole up to where it ends.
    """

    async def open(self) -> None:
        """Get ready. Called once, before anything else.

        Raises:
            ConfigurationError: the place cannot be used; says why.
        """

    async def aclose(self) -> None:
        """Finish what is under way and release everything. A durable store has it all at the next `open`."""

    async def change(
        self, wanted: Wanted, decide: Callable[[State], Decision[T]], *, durable: bool = True
    ) -> T:
        """Load `wanted`, let `decide` look at it, save and commit what it decided, return its answer.

        From the load to the commit nobody else changes what was loaded. Changes that wait at the same
        time may share a commit, each seeing what those before it saved; what one raises fails it alone.
        `decide` must be pure: it is asked again when a shared commit fails.

        Without `durable` the store need not wait until the change is safe from a failure of the machine: it
        is seen by everybody, and it is safe once a later change is that was durable.

        Cancelled, the change is committed whole or not at all.

        Raises:
            StoreUnavailableError: nothing was saved; the same change may be saved later.
            CommitLostError: it was saved or not.
            Exception: what `decide` or the database raised; nothing was saved then.
        """

    async def drop_records(self, now_ms: int, limit: int) -> int:
        """Forget up to `limit` records of requests that have expired at `now_ms`; how many there were.

        Raises:
            StoreUnavailableError: none was forgotten.
        """

    async def read_log(self, query: LogQuery) -> list[LogRow] | None:
        """Rows of a run's log; None when there is no such run."""

    async def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        """Runs in the order asked for."""

    async def read_steps(self, query: StepQuery) -> list[Listed[Step]]:
        """Steps of a run in the order asked for."""

    async def read_hooks(self, query: HookQuery) -> list[Listed[Hook]]:
        """Hooks that are there, in the order asked for."""

    async def write_stream(self, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool) -> bool:
        """Append `chunks`, in order and all at once, and close the stream if asked to.

        Returns:
            False when the stream is closed already; nothing was written then. A stream needs no run.

        Raises:
            StoreUnavailableError: nothing was written; the same may be written later.
            StreamExpiredError: the payloads of the run are gone; nothing was written. Whatever was written
                before they went, at the same time even, went along.
        """

    async def read_stream(self, query: StreamQuery) -> StreamPart:
        """Chunks of a stream; one nobody wrote to is open and has none."""

    async def list_streams(self, run_id: str) -> list[str]:
        """Names of the run's streams, in the order in which they came to be."""
