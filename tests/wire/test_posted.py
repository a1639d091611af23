"""What a server makes of an event post: every field of every type arrives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.model.parsing import parse_event
from eventclient.wire.codec import MalformedError
from eventclient.wire.frames import Frame, decode_frames
from eventclient.wire.params import NO_PARAMS, WriteParams
from eventclient.wire.posted import PostedEvent, decode_event
from eventclient.wire.requests import encode_event
from tests.client.samples import FULL_DATA, LATER, NOW, TYPES, event, full_mapping


def posted(item: Event, params: WriteParams = NO_PARAMS, *, batch: bool = False) -> PostedEvent:
    return decode_event(frame_of(item, params, batch=batch))


def frame_of(item: Event, params: WriteParams = NO_PARAMS, *, batch: bool = False) -> Frame:
    encoded = encode_event(item, now=NOW, params=params, batch=batch)
    (frame,) = decode_frames(encoded.batch_frame() if batch else encoded.single_frame())
    return frame


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_every_field_of_every_type_arrives(kind: str, batch: bool) -> None:
    got = posted(parse_event(full_mapping(kind)), batch=batch)
    assert got.event_type == kind
    assert got.event_data == FULL_DATA[kind]
    assert got.spec_version == 7
    assert got.correlation_id == full_mapping(kind).get("correlationId")
    assert got.occurred_at == full_mapping(kind)["occurredAt"]
    assert parse_event({"eventType": kind, "eventData": got.event_data} | _ids(got)) == parse_event(
        {key: value for key, value in full_mapping(kind).items() if key != "computeInstanceId"}
    )


def _ids(got: PostedEvent) -> dict[str, Any]:
    told = {
        "specVersion": got.spec_version,
        "correlationId": got.correlation_id,
        "occurredAt": got.occurred_at,
    }
    return {key: value for key, value in told.items() if value is not None}


@pytest.mark.parametrize("kind", TYPES)
def test_the_payload_travels_as_the_body_and_only_there(kind: str) -> None:
    frame = frame_of(parse_event(full_mapping(kind)))
    field = EVENT_SPECS[kind].payload_field
    assert frame.body == (FULL_DATA[kind][field] if field else b"")
    assert field not in frame.meta
    assert not any(isinstance(value, bytes) for value in frame.meta.values())


@given(st.sampled_from([kind for kind in TYPES if EVENT_SPECS[kind].payload_field]), st.binary())
def test_any_payload_arrives_as_it_is(kind: str, payload: bytes) -> None:
    data: dict[str, Any] = {EVENT_SPECS[kind].payload_field or "": payload}
    got = posted(event(kind, **data))
    assert got.body == payload


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"eventType": ""},
        {"eventType": 5},
        {"eventType": "step_created", "correlationId": 5},
        {"eventType": "step_created", "specVersion": "7"},
        {"eventType": "step_created", "specVersion": 1.5},
        {"eventType": "step_created", "specVersion": True},
        {"eventType": "step_created", "maxSlot": -1},
        {"eventType": "step_created", "occurredAt": "soon"},
        {"eventType": "step_created", "occurredAt": b"x"},
        {"eventType": "step_created", "occurredAt": "0001-01-01T00:00:00+01:00"},
        {"eventType": "step_created", "skipPreload": 1},
        {"eventType": "step_created", "resumeId": 1},
    ],
)
def test_a_meta_with_a_key_of_the_wrong_type_is_malformed(meta: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        decode_event(Frame(meta, b""))


@pytest.mark.parametrize("at", [LATER, "2026-03-04T05:06:07.089Z", 1772600767089, 1772600767089.0])
def test_a_server_reads_dates_and_numbers_in_every_form(at: object) -> None:
    got = decode_event(
        Frame(
            {"eventType": "noop", "occurredAt": at, "specVersion": 7.0, "maxSlot": None, "x": 1, "y": None},
            b"",
        )
    )
    assert (got.occurred_at, got.spec_version, got.max_slot) == (LATER, 7, None)
    assert got.event_data == {"x": 1}
