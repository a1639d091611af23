"""What a drill writes says of itself what is so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eventclient.batching.chunks import BatchLimits, plan_chunks
from eventclient.drill.kinds import FORGED, GENUINE, KINDS, Kind, mark_of, step_of
from eventclient.policy.eligibility import all_converge
from eventclient.wire.requests import encode_event

NOW = datetime(2026, 1, 1, tzinfo=UTC)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def encoded(kind: Kind) -> bytes:
    events = kind.make("drill-7-0")
    return b"".join(encode_event(event, now=NOW, batch=True).batch_frame() for event in events)


def test_most_of_them_nothing_but_the_key_protects() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert sum(not kind.is_guarded for kind in KINDS) > len(KINDS) / 2
    assert any(kind.is_guarded for kind in KINDS)
    assert any(kind.is_batch for kind in KINDS)


@each_kind
def test_one_operation_is_one_request(kind: Kind) -> None:
    events = kind.make("drill-7-0")
    if not kind.is_batch:
        assert len(events) == 1
        return
    (chunk,) = plan_chunks(events, [100] * len(events), BatchLimits(max_events=32, max_bytes=100_000))
    assert chunk.batch
    assert len(events) > 1


@each_kind
def test_guarded_means_that_it_converges(kind: Kind) -> None:
    events = kind.make("drill-7-0")
    # A start that stands right behind its create is guarded by it.
    told = [event for event in events if not (kind.is_guarded and event.event_type == "step_started")]
    assert all_converge(told) is kind.is_guarded


@each_kind
def test_a_payload_can_be_forged_in_place(kind: Kind) -> None:
    assert len(FORGED) == len(GENUINE)
    data = encoded(kind)
    forged = data.replace(GENUINE, FORGED)
    assert (forged != data) is kind.has_payload
    assert len(forged) == len(data)


@each_kind
def test_steps_it_needs_are_those_it_writes_to_and_does_not_create(kind: Kind) -> None:
    events = kind.make("drill-7-0")
    created = {event.correlation_id for event in events if event.event_type == "step_created"}
    started = {event.correlation_id for event in events if event.event_type == "step_started"}
    assert {step_of(mark_of("drill-7-0", number)) for number in kind.steps} == started - created
