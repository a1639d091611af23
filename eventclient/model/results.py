"""What a server says one event met. Entities are built from the answer when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from .entities import Hook, Run, Step, StoredEvent, Wait

E = TypeVar("E", StoredEvent, Run, Step, Hook, Wait)


@dataclass(frozen=True, slots=True)
class Log:
    """The part of a run's log that came with an answer.

    Attributes:
        cursor: where to read on from; None when the answer named none.
        has_more: whether the server holds more behind `events`.
    """

    events: tuple[StoredEvent, ...]
    cursor: str | None
    has_more: bool


class Result:
    """One event's own status and what came with it.

    The answer's maps have been checked when a result is made, so building an entity cannot fail.

    Attributes:
        status: 200, or the status of the refusal; None when there was no answer.
        code, message: the server's, on a refusal.
        step_created: a lazy ``step_started`` created its step.
        max_events: the most events the server allows on the run.
        log: the log or the part of it that came along.
    """

    __slots__ = ("_body", "_built", "code", "log", "max_events", "message", "status", "step_created")

    def __init__(
        self,
        status: int | None,
        code: str | None = None,
        message: str | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        step_created: bool = False,
        max_events: int | None = None,
        log: Log | None = None,
    ) -> None:
        """`body` holds the entities by their names in an answer (``event``, ``run``, ...)."""
        self.status = status
        self.code = code
        self.message = message
        self._body = body
        self._built: dict[str, StoredEvent | Run | Step | Hook | Wait] | None = None
        self.step_created = step_created
        self.max_events = max_events
        self.log = log

    @property
    def stored(self) -> StoredEvent | None:
        """The event as the server stored it."""
        return self._entity("event", StoredEvent)

    @property
    def run(self) -> Run | None:
        """The run, where the answer held it."""
        return self._entity("run", Run)

    @property
    def step(self) -> Step | None:
        """The step, where the answer held it."""
        return self._entity("step", Step)

    @property
    def hook(self) -> Hook | None:
        """The hook, where the answer held it."""
        return self._entity("hook", Hook)

    @property
    def wait(self) -> Wait | None:
        """The wait, where the answer held it."""
        return self._entity("wait", Wait)

    def _entity(self, name: str, kind: type[E]) -> E | None:
        value = None if self._body is None else self._body.get(name)
        if value is None or isinstance(value, kind):
            return value
        if self._built is None:
            self._built = {}
        if name not in self._built:
            self._built[name] = kind.read(value)
        return cast(E, self._built[name])
