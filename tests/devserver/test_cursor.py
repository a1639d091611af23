"""Cursors."""

from __future__ import annotations

import pytest

from eventclient.devserver.cursor import decode_cursor, encode_cursor
from eventclient.model.ids import slot_event_id


@pytest.mark.parametrize("slot", [1, 25_000, 2**53 - 1])
def test_a_cursor_names_the_slot_it_stands_behind(slot: int) -> None:
    assert decode_cursor(encode_cursor(slot_event_id(slot))) == slot


@pytest.mark.parametrize(
    "cursor",
    ["", "eid:", slot_event_id(1), f"EID:{slot_event_id(1)}", f"eid:{slot_event_id(0)}", "eid:evnt_1"],
)
def test_what_is_no_cursor_has_no_slot(cursor: str) -> None:
    assert decode_cursor(cursor) is None
