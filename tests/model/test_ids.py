"""Slots and ULID times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.ids import encode_ulid, slot_event_id, slot_of, ulid_time

SLOTS = st.integers(1, 10**16 - 1)


@given(SLOTS)
def test_a_slot_survives_its_event_id(slot: int) -> None:
    assert slot_of(slot_event_id(slot)) == slot


@given(SLOTS, SLOTS)
def test_string_order_of_slot_ids_is_log_order(one: int, other: int) -> None:
    assert (slot_event_id(one) < slot_event_id(other)) == (one < other)


@pytest.mark.parametrize(
    "event_id",
    [
        "",
        "evnt_" + "0" * 26,
        "evnt_01HF7YAT00AAAAAAAAAAAAAAAA",
        "evnt_" + "0" * 25 + "1x",
        "evnt_" + "0" * 24 + "1",
        "evnt_" + "0" * 9 + "1" * 17,
        "evnt_" + "0" * 25 + "\u0661",
        "evnt_" + "0" * 25 + "1\n",
        "step_" + "0" * 25 + "1",
    ],
)
def test_anything_else_is_no_slot(event_id: str) -> None:
    assert slot_of(event_id) is None


def test_the_first_slot_id() -> None:
    assert slot_event_id(1) == "evnt_00000000000000000000000001"


@given(st.integers(0, 2**47 - 1), st.integers(0, 2**80 - 1))
def test_the_time_of_a_ulid_is_the_time_it_was_made_from(milliseconds: int, entropy: int) -> None:
    ulid = encode_ulid(milliseconds, entropy)
    assert len(ulid) == 26
    instant = ulid_time("wrun_" + ulid)
    assert instant is not None
    assert round(instant.timestamp() * 1000) == milliseconds


@pytest.mark.parametrize(
    "run_id",
    [
        "wrun_01HF7YAT00AAAAAAAAAAAAAAAA",
        # The same with a region in it: the top bit is a mark, not time.
        "wrun_41HF7YAT000GTAAAAAAAAAAAAA",
        "wrun_41HF7YAT0050TAAAAAAAAAAAAA",
        "01HF7YAT00AAAAAAAAAAAAAAAA",
        "wrun_01hf7yat00aaaaaaaaaaaaaaaa",
    ],
)
def test_the_region_tag_is_no_part_of_the_time(run_id: str) -> None:
    assert ulid_time(run_id) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "run_id",
    [
        "",
        "wrun_",
        "wrun_1",
        "wrun_" + "I" * 26,
        "wrun_" + "8" + "0" * 25,
        "wrun_" + "0" * 27,
        "wrun_" + "ß" * 26,
    ],
)
def test_what_is_no_ulid_has_no_time(run_id: str) -> None:
    assert ulid_time(run_id) is None
