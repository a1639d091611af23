"""Rows of a log, in the bytes they are stored and travel in."""

from __future__ import annotations

from dataclasses import dataclass, field

from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.ids import slot_event_id

from .codec import decode


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of a run's log.

    Attributes:
        meta: the encoded meta of its frame: the event without its payload.
        payload: the body of its frame; empty when the event has none.
    """

    slot: int
    meta: bytes = field(repr=False)
    payload: bytes = field(repr=False)

    @property
    def event_id(self) -> str:
        return slot_event_id(self.slot)

    def event(self) -> StoredEvent:
        """The stored event, its payload included."""
        meta = decode(self.meta)
        facts = EVENT_SPECS.get(meta["eventType"])
        if self.payload and facts is not None and facts.payload_field is not None:
            meta["eventData"] = {**meta.get("eventData", {}), facts.payload_field: self.payload}
        return StoredEvent.read(meta)


@dataclass(frozen=True, slots=True)
class NewRow(LogRow):
    """A row that is about to be stored, and what it is found by."""

    run_id: str
    event_type: str
    correlation_id: str | None
