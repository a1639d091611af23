"""What the logs hold of the operations: effects, forgeries, gaps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import payload_of
from eventclient.model.events import AttrSet, Event
from eventclient.model.ids import slot_of

from .kinds import FORGED

Effect = tuple[str, str]
"""An event type and the mark of an event."""

_MARK: Final = re.compile(rb"drill-[0-9a-f]+-[0-9]+\.[0-9]+")


@dataclass(slots=True)
class Counts:
    """What was found.

    Attributes:
        effects: how often each event is in the logs.
        forged: marks whose forgery is in a log.
        gaps: runs whose log is not dense.
    """

    effects: Counter[Effect] = field(default_factory=Counter)
    forged: set[str] = field(default_factory=set)
    gaps: list[str] = field(default_factory=list)

    def add(self, run_id: str, log: Sequence[StoredEvent]) -> None:
        """Count the whole log of a run, read with its payloads."""
        for event in log:
            texts = list(_texts([event.correlation_id, event.event_data]))
            marks = _marks(texts)
            # A row that says both, such as a create under its own step's name, is one effect.
            self.effects.update((event.event_type, mark) for mark in marks)
            if any(FORGED in text for text in texts):
                self.forged |= marks
        slots = [slot_of(event.event_id) for event in log]
        if None not in slots and slots != list(range(1, len(slots) + 1)):
            self.gaps.append(run_id)

    def executions(self, effects: Iterable[Effect]) -> tuple[int, int]:
        """How often those of an operation are there: the least of them, and the most."""
        counts = [self.effects[effect] for effect in effects]
        return min(counts), max(counts)


def effects_of(events: Iterable[Event]) -> tuple[Effect, ...]:
    """What a log shows of `events` when they were written once."""
    return tuple((event.event_type, _mark(event)) for event in events)


def _mark(event: Event) -> str:
    texts: list[object] = [event.correlation_id, payload_of(event)]
    if isinstance(event, AttrSet):
        texts += [change.value for change in event.event_data.changes]
    (mark,) = _marks(_texts(texts))
    return mark


def _marks(texts: Iterable[bytes]) -> set[str]:
    return {mark.group().decode() for text in texts for mark in _MARK.finditer(text)}


def _texts(value: object) -> Iterator[bytes]:
    """Every text in `value`, however deep."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode(errors="replace")
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
