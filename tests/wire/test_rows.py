"""Rows of a log."""

from __future__ import annotations

import pytest

from eventclient.model.entities import StoredEvent
from eventclient.wire.replies import (
    Written,
)
from tests.wire.samples import BARE, EMPTY, EVENT, IDENTITY, row


def test_a_row_gives_its_event_back() -> None:
    for event in (EVENT, BARE, EMPTY):
        assert row(event).event() == event
        assert Written(row(event)).event == event
    with pytest.raises(ValueError, match="no slot"):
        row(StoredEvent.read({**IDENTITY, "eventId": "evnt_x"}))
