"""Faults that are injected into requests with keys, and how an answer tells that its key was looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.devserver.idempotency import KeyOptions
from tests.devserver.api import RUN, Answer, Api
from tests.devserver.keyed import REPLAYED, Delivery, batch, flat, single

NAMED = "Idempotency-Key"
RETRYING = {"eventType": "step_retrying", "correlationId": "r", "specVersion": 7}
QUICK = KeyOptions(deadline_s=0.05, lease_s=0.06, retention_s=3600.0)


def serving(rule: Mapping[str, Any], keys: KeyOptions | None = None) -> DevServer:
    return DevServer(faults=FaultScript.model_validate({"rule": [rule]}), keys=keys)


async def prepared(session: aiohttp.ClientSession, server: DevServer) -> Api:
    api = Api(session, server.url)
    await api.running_run()
    assert (await api.post("step_created", "r", stepName="work")).status == 200
    assert (await api.post("step_started", "r")).status == 200
    return api


async def collected(api: Api, delivery: Delivery) -> Answer:
    """The answer that comes once the request has been executed; it is asked for all the time."""
    while True:
        answer = await delivery.to(api)
        if answer.status not in (409, 504):
            return answer
        assert answer.code in ("request_in_progress", "deadline_exceeded")


async def retries(api: Api) -> int:
    return [kind for kind, _ in await api.log(RUN)].count("step_retrying")


async def test_a_delay_before_the_commit_is_part_of_the_execution(session: aiohttp.ClientSession) -> None:
    """It outlives the deadline, and several leases, which are renewed meanwhile: it has one effect."""
    rule = {"fault": "delay", "seconds": 0.4, "event_type": "step_retrying"}
    async with serving(rule, QUICK) as server:
        api = await prepared(session, server)
        delivery = single("step_retrying", "r", error=b"devle")
        answer = await delivery.to(api)
        assert (answer.status, answer.code) == (504, "deadline_exceeded")
        assert answer.headers["Retry-After"] == "1"
        answer = await collected(api, delivery)
        assert (answer.status, answer.headers[REPLAYED]) == (200, "true")
        assert await retries(api) == 1


async def test_a_delay_is_that_of_one_execution(session: aiohttp.ClientSession) -> None:
    """Who comes meanwhile is told at once, whatever the rule says of its own request."""
    rule = {"fault": "delay", "seconds": 30, "event_type": "step_retrying"}
    keys = KeyOptions(deadline_s=0.05, lease_s=10.0)
    async with serving(rule, keys) as server:
        api = await prepared(session, server)
        delivery = single("step_retrying", "r", error=b"devle")
        assert (await delivery.to(api)).status == 504
        answer = await delivery.to(api)
        assert (answer.status, answer.code) == (409, "request_in_progress")


@pytest.mark.parametrize("kind", ["single", "batch", "flat"])
async def test_an_answer_behind_the_key_names_it(session: aiohttp.ClientSession, kind: str) -> None:
    made = {
        "single": single("step_retrying", "r", key='a \\"b\\" \\\\', error=b"devle"),
        "batch": batch({**RETRYING, "eventData": {"error": b"devle"}}, key='a \\"b\\" \\\\'),
        "flat": flat("step_retrying", "r", key='a \\"b\\" \\\\', error=b"devle"),
    }[kind]
    async with DevServer() as server:
        api = await prepared(session, server)
        for _ in range(2):
            answer = await made.to(api)
            assert (answer.status, answer.headers[NAMED]) == (200, '"a \\"b\\" \\\\"')
        refused = await single("step_created", "r", key="other", stepName="work").to(api)
        assert (refused.status, refused.headers[NAMED]) == (409, '"other"')
        assert NAMED not in (await made.without_key().to(api)).headers


@pytest.mark.parametrize("status", [404, 409, 410])
async def test_an_injected_refusal_names_none(session: aiohttp.ClientSession, status: int) -> None:
    rule = {"fault": "refuse", "status": status, "event_type": "step_retrying"}
    async with serving(rule) as server:
        api = await prepared(session, server)
        answer = await single("step_retrying", "r", error=b"devle").to(api)
        assert answer.status == status
        assert NAMED not in answer.headers
