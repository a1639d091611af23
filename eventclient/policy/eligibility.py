"""Whether events may be sent again after an answer was lost, and why."""

from __future__ import annotations

from collections.abc import Iterable

from eventclient.model.event_data import StepWriter
from eventclient.model.event_specs import EVENT_SPECS, Convergence
from eventclient.model.events import AttrSet, Event


def converges(event: Event, *, resume_pair: bool = False) -> bool:
    """Whether sending `event` twice leaves the same log as sending it once.

    `resume_pair` says that a resume id and its payload digest go with it.
    """
    rule = EVENT_SPECS[event.event_type].converges
    if rule is Convergence.WITH_RESUME_PAIR:
        return resume_pair
    if rule is Convergence.UNLESS_STEP_WRITER:
        return not (
            isinstance(event, AttrSet)
            and not event.correlation_id
            and isinstance(event.event_data.writer, StepWriter)
        )
    return rule is Convergence.ALWAYS


def all_converge(events: Iterable[Event]) -> bool:
    """Whether a request of these events may be sent again: only if each of them converges."""
    return all(event.event_type in _ALWAYS or converges(event) for event in events)


_ALWAYS = frozenset(name for name, facts in EVENT_SPECS.items() if facts.converges is Convergence.ALWAYS)
