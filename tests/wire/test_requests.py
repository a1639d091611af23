"""Event posts in bytes, and back."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from eventclient.errors import InvalidEventError
from eventclient.model.event_data import StepCreatedData
from eventclient.model.events import Event, StepCreated
from eventclient.model.parsing import parse_event
from eventclient.wire import spec
from eventclient.wire.frames import Frame, decode_frames
from eventclient.wire.params import NO_PARAMS, WriteParams
from eventclient.wire.posted import PostedEvent, decode_event
from eventclient.wire.requests import META_RENAMES, encode_event
from tests.client.samples import FULL_DATA, NOW, TYPES, event, full_mapping, mapping


def posted(item: Event, params: WriteParams = NO_PARAMS, *, batch: bool = False) -> PostedEvent:
    return decode_event(frame_of(item, params, batch=batch))


def frame_of(item: Event, params: WriteParams = NO_PARAMS, *, batch: bool = False) -> Frame:
    encoded = encode_event(item, now=NOW, params=params, batch=batch)
    (frame,) = decode_frames(encoded.batch_frame() if batch else encoded.single_frame())
    return frame


# -- meta --------------------------------------------------------------------------------------


def test_what_an_event_without_version_and_time_is_sent_with() -> None:
    bare = parse_event({"eventType": "wait_completed", "correlationId": "w"})
    assert frame_of(bare).meta == {
        "eventType": "wait_completed",
        "specVersion": spec.DEFAULT_SPEC_VERSION,
        "correlationId": "w",
        "occurredAt": NOW,
        "remoteRefBehavior": "lazy",
    }


@pytest.mark.parametrize("kind", TYPES)
def test_fields_of_hooks_have_other_names_on_the_wire(kind: str) -> None:
    keys = set(frame_of(parse_event(full_mapping(kind))).meta)
    for field in FULL_DATA[kind]:
        if field in META_RENAMES:
            assert META_RENAMES[field] in keys
            assert field not in keys


@pytest.mark.parametrize("kind", TYPES)
def test_which_posts_ask_for_payloads(kind: str) -> None:
    encoded = encode_event(event(kind), now=NOW, batch=True)
    single = "resolve" if kind in ("run_created", "run_started", "step_started") else "lazy"
    for data, asked in (
        (encoded.single_frame(), single),
        (encoded.batch_frame(), "lazy"),
        (encoded.batch_frame("none"), "lazy"),
        (encoded.batch_frame("all"), "resolve"),
    ):
        (frame,) = decode_frames(data)
        assert frame.meta["remoteRefBehavior"] == asked
        assert decode_event(frame).resolve is (asked == "resolve")


@pytest.mark.parametrize("resolve", [None, "none", "all"])
@pytest.mark.parametrize("kind", TYPES)
def test_the_size_is_known_before_the_frame_is_made(kind: str, resolve: Any) -> None:
    encoded = encode_event(parse_event(full_mapping(kind)), now=NOW, batch=True)
    assert encoded.batch_frame_bytes(resolve) == len(encoded.batch_frame(resolve))


def test_parameters_travel_in_the_meta() -> None:
    params = WriteParams(
        request_id="req",
        event_count=0,
        since_cursor="eid:1",
        resume_id="res",
        resume_payload_digest="dig",
        skip_preload=True,
        via_step_dispatch=True,
        replay_divergence_count=2,
    )
    plain, told = frame_of(event("run_started")).meta, frame_of(event("run_started"), params).meta
    assert {key: told[key] for key in told if key not in plain} == {
        "vercelId": "req",
        "maxSlot": 0,
        "sinceCursor": "eid:1",
        "resumeId": "res",
        "resumePayloadDigest": "dig",
        "skipPreload": True,
        "viaStepDispatch": True,
        "replayDivergenceCount": 2,
    }
    got = posted(event("run_started"), params)
    assert (got.max_slot, got.since_cursor, got.skip_preload) == (0, "eid:1", True)
    assert (got.resume_id, got.resume_payload_digest) == ("res", "dig")


def test_empty_parameters_are_not_sent() -> None:
    params = WriteParams(request_id="", since_cursor="", resume_id="", resume_payload_digest="")
    assert frame_of(event("run_started"), params).meta == frame_of(event("run_started")).meta


@pytest.mark.parametrize(
    ("instance", "batch", "sent"), [("", True, ""), ("", False, None), ("i", False, "i")]
)
def test_an_empty_instance_is_sent_in_a_batch_only(instance: str, batch: bool, sent: str | None) -> None:
    item = parse_event(mapping("step_started") | {"computeInstanceId": instance})
    assert frame_of(item, batch=batch).meta.get("computeInstanceId") == sent


def test_numbers_are_sent_as_the_reference_can_read_them() -> None:
    item = event("run_created", executionContext={"at": 1767225600123, "low": -(2**31) - 1, "small": 5})
    context = frame_of(item).meta["executionContext"]
    assert [type(context[key]) for key in ("at", "low", "small")] == [float, float, int]


def test_time_is_cut_to_the_millisecond() -> None:
    item = event("wait_created", resumeAt=datetime(2026, 1, 1, 0, 0, 0, 123_999, tzinfo=UTC))
    assert frame_of(item).meta["resumeAt"] == datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


# -- what cannot be sent -----------------------------------------------------------------------


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"k": value}
    return value


def context(value: object) -> dict[str, Any]:
    return mapping("run_created", executionContext={"a": value})


CONTEXT = "eventData.executionContext"
UNSENDABLE: list[tuple[str, dict[str, Any], str]] = [
    ("set", context({1}), f"{CONTEXT}.a"),
    ("uuid", context(uuid.UUID(int=5)), f"{CONTEXT}.a"),
    ("naive", context(datetime(2026, 1, 1)), f"{CONTEXT}.a"),
    ("big int", context([0, 2**53 + 1]), f"{CONTEXT}.a.1"),
    ("key", context({5: 1}), f"{CONTEXT}.a"),
    ("surrogate", context("\ud800"), f"{CONTEXT}.a"),
    ("bytearray", context(bytearray(b"x")), f"{CONTEXT}.a"),
    ("memoryview", context(memoryview(b"x")), f"{CONTEXT}.a"),
    ("deep", context(deep(100)), f"{CONTEXT}.a" + ".k" * 64),
    ("large", context("x" * 2048), CONTEXT),
    ("attribute", mapping("run_created", attributes={"a": "\ud800"}), "eventData.attributes.a"),
    ("correlation id", mapping("step_created", "\ud800"), "correlationId"),
    ("text", mapping("step_created", stepName="\ud800"), "eventData.stepName"),
    ("instance", mapping("step_started") | {"computeInstanceId": "\ud800"}, "computeInstanceId"),
    ("version", mapping("step_started") | {"specVersion": 2**53 + 1}, "specVersion"),
    ("attempt", mapping("step_started", attempt=2**53 + 1), "eventData.attempt"),
    ("count", mapping("step_completed", stepCount=2**53 + 1), "eventData.stepCount"),
    ("list", mapping("step_completed", optimizations=["a", "\ud800"]), "eventData.optimizations.1"),
    ("token", mapping("hook_created", token="\ud800"), "eventData.token"),
    ("change", mapping("attr_set", changes=[{"key": "a", "value": "\ud800"}]), "eventData.changes.0.value"),
    ("changes", mapping("attr_set", changes=[{"key": "k", "value": "x" * 8192}]), "eventData"),
]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("given", "field"), [row[1:] for row in UNSENDABLE], ids=[row[0] for row in UNSENDABLE]
)
def test_what_cannot_be_sent_is_refused_with_its_field(
    given: dict[str, Any], field: str, batch: bool
) -> None:
    item = parse_event(given)
    with pytest.raises(InvalidEventError) as refused:
        encode_event(item, now=NOW, batch=batch)
    assert refused.value.field == field
    assert refused.value.reason


def test_the_limit_of_an_execution_context_is_in_encoded_bytes() -> None:
    # A map header, the key and a text with a three-byte header are 6 bytes beside the text.
    encode_event(parse_event(context("x" * 2042)), now=NOW)
    with pytest.raises(InvalidEventError, match="2049 bytes encoded"):
        encode_event(parse_event(context("x" * 2043)), now=NOW)


def test_the_limit_of_an_attribute_event_is_in_json_bytes() -> None:
    empty = '{"changes":[{"key":"k","value":""}],"writer":{"type":"workflow"}}'
    room = spec.MAX_ATTRIBUTE_EVENT_BYTES - len(empty)
    encode_event(event("attr_set", changes=[{"key": "k", "value": "x" * room}]), now=NOW)
    # A character of two bytes counts two.
    with pytest.raises(InvalidEventError, match="8193 bytes as JSON"):
        encode_event(event("attr_set", changes=[{"key": "k", "value": "x" * (room - 1) + "ß"}]), now=NOW)


def test_an_event_built_around_the_checks_still_sends_no_foreign_payload() -> None:
    data = StepCreatedData.model_construct(step_name="s", workflow_name=None, input="text")
    item = StepCreated.model_construct(
        correlation_id="c", event_data=data, spec_version=None, occurred_at=None, compute_instance_id=None
    )
    with pytest.raises(InvalidEventError, match="must be bytes, not str"):
        encode_event(item, now=NOW)
