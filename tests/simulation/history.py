"""Whether a log is one that the life cycle allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventclient import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS, Entity
from eventclient.model.ids import slot_event_id
from eventclient.model.lifecycle import (
    HookState,
    PartState,
    Refusal,
    RunState,
    StepState,
    WaitState,
    apply,
)

_ABSENT: dict[Entity, PartState] = {
    Entity.STEP: StepState.ABSENT,
    Entity.WAIT: WaitState.ABSENT,
    Entity.HOOK: HookState.ABSENT,
}


def illegal_rows(run_id: str, events: Sequence[StoredEvent]) -> Iterator[str]:
    """Rows that are not where they should be, or that could not come to be where they stand."""
    run = RunState.ABSENT
    parts: dict[tuple[Entity, str], PartState] = {}
    for slot, event in enumerate(events, 1):
        if event.event_id != slot_event_id(slot):
            yield f"run {run_id} has {event.event_id} at slot {slot}"
        entity = EVENT_SPECS[event.event_type].entity
        name = (entity, event.correlation_id or "")
        part = parts.get(name, _ABSENT[entity]) if entity in _ABSENT else None
        kind = event.event_type
        after = apply(kind, run, part)
        if isinstance(after, Refusal):
            yield f"run {run_id}: {event.event_id} ({kind}) is illegal: {after} for {part or run}"
        elif isinstance(after, RunState):
            run = after
        elif isinstance(after, StepState | WaitState | HookState):
            parts[name] = after
        else:
            yield f"run {run_id}: {event.event_id} ({kind}) repeats what had been"
