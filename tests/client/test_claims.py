"""A claim, a create directly followed by its start, is taken or lost as one, by whatever route it goes."""

from __future__ import annotations

import pytest

from eventclient import ClientOptions, Event, EventClient, Outcome, parse_event
from eventclient.devserver.app import DevServer

RUN = "wrun_claims"


def event(kind: str, correlation_id: str | None = None, **data: object) -> Event:
    named = {} if correlation_id is None else {"correlation_id": correlation_id}
    return parse_event({"event_type": kind, "spec_version": 7, "event_data": data, **named})


CREATED = event("run_created", deployment_id="dpl_1", workflow_name="order")
CLAIMS = [
    event("step_created", "step_a", step_name="charge"),
    event("step_started", "step_a", step_name="charge"),
    event("step_created", "step_b", step_name="mail"),
    event("step_started", "step_b", step_name="mail"),
]


@pytest.mark.parametrize("batch", [True, False])
async def test_a_claim_is_lost_as_one(batch: bool) -> None:
    options = ClientOptions(batch=batch)
    async with DevServer() as server, EventClient(server.url, options=options) as client:
        await client.create(RUN, CREATED)
        await client.create_batch(RUN, CLAIMS[:2])
        result = await client.create_batch(RUN, CLAIMS)
        assert [receipt.outcome for receipt in result] == [
            Outcome.CONFLICT,
            Outcome.CONFLICT,
            Outcome.CREATED,
            Outcome.CREATED,
        ]
        assert [stored.event_type for stored in await client.read_log(RUN)] == [
            "run_created",
            "step_created",
            "step_started",
            "step_created",
            "step_started",
        ]


async def test_a_start_that_is_no_pair_is_sent_all_the_same() -> None:
    options = ClientOptions(batch=False)
    async with DevServer() as server, EventClient(server.url, options=options) as client:
        await client.create(RUN, CREATED)
        await client.create_batch(RUN, CLAIMS[:1])
        result = await client.create_batch(RUN, [CLAIMS[0], CLAIMS[2], CLAIMS[1]])
        assert [receipt.outcome for receipt in result] == [
            Outcome.CONFLICT,
            Outcome.CREATED,
            Outcome.CREATED,
        ]
