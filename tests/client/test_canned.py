"""Canned answers with aioresponses: as users of an injected session test their own code."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aioresponses import aioresponses

from eventclient import ClientOptions, EventClient, NotFoundError, ThrottleError, TransportError
from tests.support.fake_clock import FakeClock

from .answers import batch_answer, end_frame, single_answer
from .samples import RUN, event, steps

ORIGIN = "http://127.0.0.1:4437"
BATCH = f"{ORIGIN}/api/v4/runs/{RUN}/events/batch"
EVENTS = steps(3)


class Canned(aiohttp.ClientResponse):
    """What aioresponses 0.7.9 builds, with the argument that newer releases of aiohttp want."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "stream_writer" in inspect.signature(aiohttp.ClientResponse.__init__).parameters:
            kwargs.setdefault("stream_writer", Mock())
        super().__init__(*args, **kwargs)


@pytest.fixture
async def client() -> AsyncIterator[EventClient]:
    async with aiohttp.ClientSession() as session:
        client = EventClient(ORIGIN, token="t", session=session, options=ClientOptions(clock=FakeClock()))
        yield client
        await client.aclose()


def taken(canned: aioresponses, url: str = BATCH, method: str = "POST") -> list[Any]:
    return [
        call
        for (verb, seen), calls in canned.requests.items()
        if (verb, str(seen)) == (method, url)
        for call in calls
    ]


async def test_a_batch(client: EventClient) -> None:
    with aioresponses() as canned:
        canned.post(BATCH, body=batch_answer(EVENTS), response_class=Canned)
        result = await client.create_batch(RUN, EVENTS)
        (call,) = taken(canned)
    assert len(result.created) == 3
    assert call.kwargs["allow_redirects"] is False
    assert call.kwargs["headers"]["Authorization"] == "Bearer t"
    assert isinstance(call.kwargs["data"], bytes)
    assert None not in (call.kwargs["timeout"].total, call.kwargs["timeout"].sock_read)


async def test_every_retry_sends_the_same_bytes(client: EventClient) -> None:
    with aioresponses() as canned:
        canned.post(BATCH, status=429, headers={"Retry-After": "2"}, response_class=Canned)
        canned.post(BATCH, status=503, response_class=Canned)
        canned.post(BATCH, exception=aiohttp.ServerDisconnectedError())
        canned.post(BATCH, body=batch_answer(EVENTS), response_class=Canned)
        result = await client.create_batch(RUN, EVENTS)
        bodies = [call.kwargs["data"] for call in taken(canned)]
    assert len(bodies) == 4
    assert len({id(body) for body in bodies}) == 1
    assert [attempt.cause for attempt in result[0].attempts] == ["throttled", "ambiguous", "ambiguous", "ok"]


async def test_a_status_of_an_exception_is_not_believed(client: EventClient) -> None:
    error = aiohttp.ClientResponseError(Mock(), (), status=404, message="Not Found")
    with aioresponses() as canned:
        canned.post(BATCH, exception=error, repeat=True)
        with pytest.raises(TransportError) as raised:
            await client.create_batch(RUN, EVENTS)
        assert len(taken(canned)) == 3
    assert (raised.value.ambiguous, raised.value.status) == (True, None)


async def test_from_the_batch_route_to_single_posts(client: EventClient) -> None:
    single = f"{ORIGIN}/api/v4/runs/{RUN}/events/step_created"
    with aioresponses() as canned:
        canned.post(BATCH, status=405, response_class=Canned)
        for each in EVENTS:
            canned.post(single, body=single_answer(each), response_class=Canned)
        result = await client.create_batch(RUN, EVENTS)
        assert (len(taken(canned)), len(taken(canned, single))) == (1, 3)
    assert [receipt.via for receipt in result] == ["single"] * 3


async def test_a_throttle_over_the_budget(client: EventClient) -> None:
    with aioresponses() as canned:
        canned.post(BATCH, status=429, headers={"Retry-After": "31"}, response_class=Canned)
        with pytest.raises(ThrottleError) as raised:
            await client.create_batch(RUN, EVENTS)
    assert raised.value.retry_after == 31.0


async def test_a_refusal_with_its_code(client: EventClient) -> None:
    url = f"{ORIGIN}/api/v4/runs/{RUN}/events/step_completed"
    with aioresponses() as canned:
        canned.post(
            url, status=404, payload={"message": "no step", "code": "step-not-found"}, response_class=Canned
        )
        with pytest.raises(NotFoundError, match="no step") as raised:
            await client.create(RUN, event("step_completed"))
    assert raised.value.code == "step-not-found"


async def test_a_log(client: EventClient) -> None:
    url = f"{ORIGIN}/api/v4/runs/{RUN}/events?remoteRefBehavior=resolve&returnAll=true"
    with aioresponses() as canned:
        canned.get(
            url,
            body=end_frame("c"),
            headers={"Content-Type": "application/vnd.workflow.v4-frames"},
            response_class=Canned,
        )
        assert await client.read_log(RUN) == []
