"""Cursors: a place in a run's log, named by the event before it."""

from __future__ import annotations

from typing import Final

from eventclient.model.ids import slot_of
from eventclient.wire.spec import CURSOR_EVENT_PREFIX

CODE_BAD_CURSOR: Final = "invalid-cursor"
"""Status 400: a cursor of a log, a list or a stream that this server did not make."""


def encode_cursor(event_id: str) -> str:
    """The cursor for "strictly behind this event"."""
    return f"{CURSOR_EVENT_PREFIX}{event_id}"


def decode_cursor(cursor: str) -> int | None:
    """The slot a cursor stands behind; None when it is no cursor of this server."""
    if not cursor.startswith(CURSOR_EVENT_PREFIX):
        return None
    return slot_of(cursor.removeprefix(CURSOR_EVENT_PREFIX))
