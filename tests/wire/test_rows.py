"""Rows of a log."""

from __future__ import annotations

from eventclient.wire.replies import (
    Written,
)
from tests.wire.samples import BARE, EMPTY, EVENT, row


def test_a_row_gives_its_event_back() -> None:
    for event in (EVENT, BARE, EMPTY):
        assert row(event).event() == event
        assert Written(row(event)).event == event
