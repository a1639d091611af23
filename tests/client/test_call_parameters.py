"""What a caller says beside an event is checked before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient import ConfigurationError, EventClient, InvalidEventError, parse_event
from eventclient.devserver.app import DevServer

EVENT = parse_event(
    {"eventType": "run_created", "eventData": {"deploymentId": "dpl_1", "workflowName": "order"}}
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_id", 5),
        ("request_id", "\ud800"),
        ("since_cursor", b"eid:x"),
        ("resume_id", 5),
        ("resume_payload_digest", 5),
        ("event_count", "x"),
        ("event_count", -1),
        ("event_count", 2**53),
        ("event_count", True),
        ("replay_divergence_count", 1.5),
        ("resolve_data", "x"),
    ],
)
async def test_a_wrong_parameter_is_named(name: str, value: Any) -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        with pytest.raises(InvalidEventError) as refused:
            await client.create("wrun_1", EVENT, **{name: value})
        assert refused.value.field == name
        assert not server.requests


@pytest.mark.parametrize("value", [0, -1, 1.5, "x", None, True])
async def test_a_wrong_concurrency_is_named(value: Any) -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        with pytest.raises(ConfigurationError, match="concurrency"):
            await client.create_batch("wrun_1", [EVENT], concurrency=value)
        assert not server.requests
