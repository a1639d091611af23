"""A client over a transport of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from eventclient import ClientOptions, ConfigurationError, EventClient, TransportError
from eventclient.client.transport import Answer, Loss, Request
from tests.support.fake_clock import FakeClock

from .answers import single_answer
from .samples import RUN, event


@dataclass
class Wire:
    """A transport that plays `replies` and takes `elapsed_s` for each."""

    replies: list[Answer | Loss]
    clock: FakeClock
    elapsed_s: float = 0.0
    requests: list[Request] = field(default_factory=list)
    closed: int = 0

    async def send(self, request: Request) -> Answer | Loss:
        self.requests.append(request)
        self.clock.advance(self.elapsed_s)
        return self.replies[len(self.requests) - 1]

    async def aclose(self) -> None:
        self.closed += 1


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    told = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Answer(status, CIMultiDictProxy(told), body)


STEP = event("step_created")


async def test_requests_go_over_it_and_it_is_closed_with_the_client() -> None:
    clock = FakeClock()
    wire = Wire([answer(200, single_answer(STEP))], clock)
    options = ClientOptions(clock=clock, mint_key=lambda: "k")
    async with EventClient.over(wire, options=options) as client:
        receipt = await client.create(RUN, STEP)
    assert (receipt.outcome.value, wire.closed) == ("created", 1)
    (request,) = wire.requests
    assert str(request.url) == f"http://127.0.0.1/api/v4/runs/{RUN}/events/step_created"
    assert request.headers["Idempotency-Key"] == '"k"'


async def test_it_is_a_client_like_any() -> None:
    wire = Wire([answer(200, single_answer(STEP))], FakeClock())
    client = EventClient.over(wire, "https://server.test/", token="tok", headers={"X-Own": "1"})
    await client.create(RUN, STEP)
    (request,) = wire.requests
    assert str(request.url).startswith("https://server.test/api/v4/")
    assert (request.headers["Authorization"], request.headers["X-Own"]) == ("Bearer tok", "1")
    assert "tok" not in repr(client)


async def test_all_time_is_that_of_the_clock() -> None:
    clock = FakeClock()
    lost, pending = (
        Loss(sent=True, cause="lost"),
        answer(504, b'{"code": "deadline_exceeded"}', Retry_After="9"),
    )
    wire = Wire([lost, pending, answer(200, single_answer(STEP))], clock, elapsed_s=1.5)
    async with EventClient.over(wire, options=ClientOptions(clock=clock)) as client:
        receipt = await client.create(RUN, STEP)
    assert clock.sleeps == [0.1, 9.0]
    assert [attempt.elapsed_s for attempt in receipt.attempts] == pytest.approx([1.5] * 3)
    assert len({id(request) for request in wire.requests}) == 1


@pytest.mark.parametrize("name", ["idempotency-support", "IDEMPOTENCY-SUPPORT"])
async def test_headers_of_answers_have_no_case(name: str) -> None:
    clock = FakeClock()
    start = event("step_started")
    failing = Answer(500, CIMultiDictProxy(CIMultiDict({name: "true"})), b"")
    wire = Wire([failing, answer(200, single_answer(start))], clock)
    async with EventClient.over(wire, options=ClientOptions(clock=clock)) as client:
        await client.create(RUN, start)
    assert len(wire.requests) == 2


async def test_what_is_not_sent_is_told() -> None:
    clock = FakeClock()
    wire = Wire([Loss(sent=False, cause="refused")] * 3, clock)
    async with EventClient.over(wire, options=ClientOptions(clock=clock)) as client:
        with pytest.raises(TransportError) as raised:
            await client.create(RUN, STEP)
    assert not raised.value.ambiguous


@pytest.mark.parametrize("base_url", ["", "ftp://x", "http://u:p@x"])
async def test_an_address_that_cannot_be_used_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError):
        EventClient.over(Wire([], FakeClock()), base_url)
