"""Flat bodies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from eventclient.model.entities import StoredEvent
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.ids import slot_event_id
from eventclient.wire.codec import MalformedError, decode, encode_value
from eventclient.wire.flat import (
    decode_flat_event,
    decode_map,
    encode_flat_row,
    encode_flat_written,
    encode_page,
)
from eventclient.wire.replies import Written
from eventclient.wire.rows import LogRow
from eventclient.wire.stored import encode_event

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXT_DATE = b"\xc0\x78\x202026-01-01T12:00:00.123456+00:00"


def row(event_type: str, payload: bytes = b"", **data: Any) -> LogRow:
    identity = {"runId": "wrun_1", "eventId": slot_event_id(3), "createdAt": AT}
    event = StoredEvent.read({**identity, "eventType": event_type, "eventData": data})
    return LogRow(3, encode_event(event, resolve=False), payload)


# -- posts -------------------------------------------------------------------------------------


def test_the_payload_is_taken_out_of_event_data() -> None:
    body = {
        "eventType": "step_created",
        "correlationId": "s",
        "specVersion": 5,
        "remoteRefBehavior": "resolve",
        "vercelId": "iad1::x",
        "somethingNew": 1,
        "eventData": {"stepName": "work", "input": b"devlin"},
    }
    posted = decode_flat_event(encode_value(body))
    assert posted.event_data == {"stepName": "work", "input": b"devlin"}
    assert posted.body == b"devlin"
    assert (posted.correlation_id, posted.spec_version, posted.resolve) == ("s", 5, True)


def test_fields_keep_their_names_and_nulls_count_as_absent() -> None:
    body = {
        "eventType": "hook_received",
        "correlationId": "h",
        "resumeId": "r",
        "resumePayloadDigest": "d",
        "occurredAt": AT,
        "eventData": {"token": "t", "payload": b"p", "other": None},
    }
    posted = decode_flat_event(encode_value(body))
    assert posted.event_data == {"token": "t", "payload": b"p"}
    assert (posted.resume_id, posted.resume_payload_digest, posted.occurred_at) == ("r", "d", AT)
    assert not posted.resolve


def test_dates_may_be_text() -> None:
    body = b"\xa2" + encode_value("eventType") + encode_value("wait_created")
    body += encode_value("eventData") + b"\xa1" + encode_value("resumeAt") + TEXT_DATE
    assert decode_flat_event(body).event_data == {"resumeAt": AT.replace(microsecond=123456)}


def test_a_payload_that_is_no_byte_string_becomes_its_cbor() -> None:
    error = {"message": "no", "stack": "at work"}
    posted = decode_flat_event(encode_value({"eventType": "step_failed", "eventData": {"error": error}}))
    assert decode(posted.body) == error
    assert posted.event_data == {"error": posted.body}


@pytest.mark.parametrize("event_data", [None, {}])
def test_event_data_may_be_missing(event_data: object) -> None:
    posted = decode_flat_event(encode_value({"eventType": "run_cancelled", "eventData": event_data}))
    assert (posted.event_data, posted.body) == ({}, b"")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        encode_value([]),
        encode_value({}),
        encode_value({"eventType": 1}),
        encode_value({"eventType": ""}),
        encode_value({"eventType": "run_cancelled", "eventData": []}),
        encode_value({"eventType": "run_cancelled", "specVersion": "5"}),
        encode_value({"eventType": "run_cancelled"}) + b"\x00",
        # An input that is a regular expression.
        b"\xa2\x69eventType\x6brun_created\x69eventData\xa1\x65input\xd8\x23\x61a",
    ],
)
def test_anything_else_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_flat_event(body)


def test_a_body_has_to_be_a_map() -> None:
    assert decode_map(encode_value({"a": 1})) == {"a": 1}
    with pytest.raises(MalformedError, match="not a map"):
        decode_map(encode_value("a"))


# -- answers -----------------------------------------------------------------------------------


def test_a_row_carries_its_payload_unless_it_is_read_lazily() -> None:
    created = row("step_created", b"devlin", stepName="work")
    assert decode(encode_flat_row(created, resolve=True))["eventData"] == {
        "stepName": "work",
        "input": b"devlin",
    }
    assert decode(encode_flat_row(created, resolve=False))["eventData"] == {"stepName": "work"}


REQUIRED = {
    "run_created": "input",
    "run_completed": "output",
    "run_failed": "error",
    "step_created": "input",
    "step_completed": "result",
    "step_failed": "error",
    "step_retrying": "error",
    "hook_received": "payload",
}


@pytest.mark.parametrize("event_type", [*EVENT_SPECS, "hook_conflict", "noop"])
def test_a_payload_that_models_ask_for_is_there_even_if_empty(event_type: str) -> None:
    field = REQUIRED.get(event_type)
    answer = decode(encode_flat_row(row(event_type, stepName="w"), resolve=True))
    expected = {"stepName": "w"} if field is None else {"stepName": "w", field: b""}
    assert answer["eventData"] == expected


def test_the_answer_to_a_post_is_complete_when_it_is_resolved() -> None:
    written = Written(row("run_created", deploymentId="d", workflowName="w"))
    resolved = decode(encode_flat_written(written, resolve=True))
    assert resolved["event"]["eventData"] == {"deploymentId": "d", "workflowName": "w", "input": b""}
    lazy = decode(encode_flat_written(written, resolve=False))
    assert lazy["event"]["eventData"] == {"deploymentId": "d", "workflowName": "w"}
    with_payload = Written(row("step_failed", b"devlerr"))
    assert decode(encode_flat_written(with_payload, resolve=True))["event"]["eventData"] == {
        "error": b"devlerr"
    }


@pytest.mark.parametrize("count", [0, 23, 24, 255, 256, 1000])
def test_a_page_holds_its_items_and_always_a_cursor(count: int) -> None:
    items = [encode_value(number) for number in range(count)]
    assert decode(encode_page(items, cursor=None, has_more=False)) == {
        "data": list(range(count)),
        "cursor": None,
        "hasMore": False,
    }
    assert decode(encode_page(items, cursor="c", has_more=True))["cursor"] == "c"
