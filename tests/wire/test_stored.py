"""Stored events and entities, in bytes."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.wire.codec import decode, encode_value
from eventclient.wire.stored import (
    encode_entity,
    encode_event,
    encode_row_meta,
    event_map,
)
from tests.wire.samples import AT, BARE, EMPTY, EVENT, EVENT_ID, HOOK, IDENTITY, RUN, STEP, WAIT


@pytest.mark.parametrize(
    ("kind", "pairs", "payloads"),
    [
        (Run, RUN, {"input", "error"}),
        (Step, STEP, {"input", "output", "error"}),
        (Hook, HOOK, {"metadata"}),
        (Wait, WAIT, set()),
    ],
)
def test_an_entity_travels_as_it_was_read_and_lazily_without_payloads(
    kind: Any, pairs: dict[str, Any], payloads: set[str]
) -> None:
    entity = kind.read(pairs)
    assert decode(encode_entity(entity)) == pairs
    assert decode(encode_entity(entity, resolve=False)) == {
        key: value for key, value in pairs.items() if key not in payloads
    }


def test_an_event_travels_as_it_was_read_and_lazily_without_its_payload() -> None:
    assert event_map(EVENT) == {
        **IDENTITY,
        "correlationId": "s",
        "eventData": {"stepName": "n", "input": b"in"},
    }
    assert event_map(EVENT, resolve=False)["eventData"] == {"stepName": "n"}
    assert event_map(EMPTY, resolve=False)["eventData"] == {}
    assert "eventData" not in event_map(BARE)
    # What only looks like a payload stays.
    conflict = StoredEvent.read({**IDENTITY, "eventType": "hook_conflict", "eventData": {"input": b"x"}})
    assert event_map(conflict, resolve=False)["eventData"] == {"input": b"x"}
    # The event itself is left as it is.
    assert EVENT.payload == b"in"


def test_dates_are_floats_under_tag_1() -> None:
    assert b"icreatedAt\xc1\xfb" in encode_event(EVENT, resolve=False)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**53)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["stepName", "input", "other"]), VALUES))
def test_the_straight_way_and_the_general_one_say_the_same(pairs: dict[str, Any]) -> None:
    event = StoredEvent.read({**IDENTITY, "specVersion": 7, "eventData": pairs})
    for resolve in (True, False):
        general = decode(encode_value(event_map(event, resolve=resolve)))
        assert decode(encode_event(event, resolve=resolve)) == general
    run = Run.read({**RUN, "executionContext": pairs, "attributes": {}})
    assert decode(encode_entity(run)) == decode(
        encode_value(run.model_dump(by_alias=True, exclude_none=True))
    )


@given(st.dictionaries(st.sampled_from(["stepName", "other"]), VALUES), st.none() | st.text("abc"))
def test_the_meta_of_a_new_row_is_that_of_the_event_it_makes(data: dict[str, Any], name: str | None) -> None:
    parts = {"event_type": "hook_received", "run_id": "r", "spec_version": 7, "created_at": AT}
    more = {"correlation_id": name, "resume_id": name, "event_data": data}
    event = StoredEvent(event_id=EVENT_ID, **parts, **more)  # type: ignore[arg-type]
    assert encode_row_meta(slot=1, **parts, **more) == encode_event(event, resolve=False)  # type: ignore[arg-type]
