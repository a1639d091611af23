"""Rows of a log, made from the events that are in them."""

from __future__ import annotations

from eventclient.model.entities import StoredEvent
from eventclient.model.ids import slot_of
from eventclient.wire.rows import NewRow
from eventclient.wire.stored import encode_event


def new_row(event: StoredEvent) -> NewRow:
    """The row that holds `event`, whose id is a slot."""
    slot = slot_of(event.event_id)
    assert slot is not None, f"{event.event_id} is no slot"
    meta = encode_event(event, resolve=False)
    return NewRow(slot, meta, event.payload or b"", event.run_id, event.event_type, event.correlation_id)
