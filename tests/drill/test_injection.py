"""What the transport does to requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from yarl import URL

from eventclient.client.transport import Answer, Loss, Request
from eventclient.drill.course import CURRENT, Course
from eventclient.drill.faults import Way
from eventclient.drill.injection import MOST_ROUNDS, ROUND_S, FaultTransport
from tests.support.fake_clock import FakeClock

from .rows import answer, course, refusal

DONE = answer(200, b"done")
AGAIN = answer(200, b"done", {"Idempotency-Replayed": "true"})
REUSED = refusal(422, "idempotency_key_reuse")
BUSY = refusal(409, "request_in_progress")
POST = Request("POST", URL("http://127.0.0.1/x"), "post", {"Idempotency-Key": '"k"'}, b"drill-7-0.0:genuine")


class Inner:
    """Answers by turns; behind a gate where there is one."""

    def __init__(self, replies: Sequence[Answer | Loss], gate: asyncio.Event | None = None) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.arrived = asyncio.Semaphore(0)
        self.gate = gate
        self.cancelled = 0
        self.closed = False

    async def send(self, request: Request) -> Answer | Loss:
        self.requests.append(request)
        self.arrived.release()
        reply = self.replies.pop(0)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return reply

    async def aclose(self) -> None:
        self.closed = True


@contextmanager
def operation(way: Way | None) -> Iterator[Course]:
    """The course of an operation the running task makes."""
    made = course(way=way)
    token = CURRENT.set(made)
    try:
        yield made
    finally:
        CURRENT.reset(token)


def over(inner: Inner, *, own: bool = True, clock: FakeClock | None = None) -> FaultTransport:
    return FaultTransport(inner, clock or FakeClock(), own=own)


async def test_beside_operations_nothing_happens() -> None:
    inner = Inner([DONE])
    assert await over(inner).send(POST) is DONE


async def test_a_read_is_no_delivery() -> None:
    read = Request("GET", POST.url, "read", {})
    with operation(Way.LOST_ONCE) as made:
        assert await over(Inner([DONE])).send(read) is DONE
        assert made.deliveries == 0


@pytest.mark.parametrize("way", [None, Way.HOLDER_LOST, Way.DEADLINE_PASSES])
async def test_what_happens_in_the_server_is_only_delivered(way: Way | None) -> None:
    with operation(way) as made:
        assert await over(Inner([DONE])).send(POST) is DONE
        assert made.deliveries == 1


@pytest.mark.parametrize(("way", "losses"), [(Way.LOST_ONCE, 1), (Way.LOST_TWICE, 2)])
async def test_answers_are_lost_once_they_are_there(way: Way, losses: int) -> None:
    inner = Inner([BUSY, DONE, AGAIN, AGAIN])
    transport = over(inner)
    with operation(way) as made:
        assert await transport.send(POST) is BUSY
        for _ in range(losses):
            assert not made.is_injected
            reply = await transport.send(POST)
            assert isinstance(reply, Loss)
            assert reply.sent
        assert made.is_injected
        assert await transport.send(POST) is AGAIN
        assert made.deliveries == 2 + losses
        assert inner.requests == [POST] * (2 + losses)


async def test_delivered_one_after_the_other() -> None:
    inner = Inner([DONE, AGAIN, AGAIN])
    transport = over(inner)
    with operation(Way.IN_TURN) as made:
        assert await transport.send(POST) is AGAIN
        assert made.is_injected
        assert inner.requests == [POST, POST]
        assert await transport.send(POST) is AGAIN
        assert made.deliveries == 3


async def test_delivered_at_once() -> None:
    gate = asyncio.Event()
    inner = Inner([DONE, BUSY, AGAIN], gate)
    transport = over(inner)
    with operation(Way.AT_ONCE) as made:
        work = asyncio.ensure_future(transport.send(POST))
        await inner.arrived.acquire()
        await inner.arrived.acquire()
        gate.set()
        assert await work is DONE
        assert made.is_injected
        assert await transport.send(POST) is AGAIN


async def test_another_payload_follows() -> None:
    inner = Inner([DONE, REUSED, AGAIN])
    transport = over(inner)
    with operation(Way.OTHER_PAYLOAD) as made:
        assert await transport.send(POST) is DONE
        _, forged = inner.requests
        assert forged.body == b"drill-7-0.0:forgery"
        assert forged.headers == POST.headers
        assert made.is_injected
        assert made.complaints == []
        assert await transport.send(POST) is AGAIN


@pytest.mark.parametrize("met", [DONE, AGAIN, refusal(409, "conflict"), refusal(422, "other")])
async def test_another_payload_must_be_refused(met: Answer) -> None:
    with operation(Way.OTHER_PAYLOAD) as made:
        await over(Inner([DONE, met])).send(POST)
        assert made.complaints == [f"another payload under the key was answered {met.status}"]


async def test_another_payload_waits_for_a_busy_server() -> None:
    clock = FakeClock()
    late = refusal(504, "deadline_exceeded")
    with operation(Way.OTHER_PAYLOAD) as made:
        await over(Inner([DONE, late, late, REUSED]), clock=clock).send(POST)
        assert made.complaints == []
        assert made.deliveries == 4
    assert clock.sleeps == [ROUND_S] * 2


async def test_but_not_for_ever() -> None:
    late = refusal(504, "deadline_exceeded")
    with operation(Way.OTHER_PAYLOAD) as made:
        await over(Inner([DONE, *[late] * MOST_ROUNDS])).send(POST)
        assert made.complaints == ["another payload under the key was answered 504"]


@pytest.mark.parametrize("way", [Way.LATE_ZOMBIE, Way.RACING_ZOMBIE])
async def test_a_zombie_is_left_when_it_has_its_claim(way: Way) -> None:
    gate = asyncio.Event()
    inner = Inner([DONE, AGAIN], gate)
    transport = over(inner)
    with operation(way) as made:
        work = asyncio.ensure_future(transport.send(POST))
        await inner.arrived.acquire()
        assert not work.done()
        made.claimed.set()
        reply = await work
        assert isinstance(reply, Loss)
        assert reply.sent
        gate.set()
        assert await transport.send(POST) is AGAIN
        await transport.aclose()
    assert inner.cancelled == 0
    assert inner.closed
    assert "delivery 1: 200" in made.steps


@pytest.mark.parametrize("way", [Way.LATE_ZOMBIE, Way.GIVES_UP])
async def test_a_server_without_claims_is_not_waited_for_in_vain(way: Way) -> None:
    with operation(way) as made:
        assert isinstance(await over(Inner([DONE])).send(POST), Loss)
        assert not made.is_injected


async def test_a_client_gives_up_while_the_server_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventclient.drill.injection.PATIENCE_S", 0.0)
    inner = Inner([DONE, BUSY], asyncio.Event())
    transport = over(inner)
    with operation(Way.GIVES_UP) as made:
        made.claimed.set()
        reply = await transport.send(POST)
        assert isinstance(reply, Loss)
        assert reply.sent
        assert inner.cancelled == 1
        assert inner.gate is not None
        inner.gate.set()
        assert await transport.send(POST) is BUSY


async def test_elsewhere_the_client_leaves_the_request_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventclient.drill.injection.PATIENCE_S", 0.0)
    inner = Inner([DONE], asyncio.Event())
    transport = over(inner, own=False)
    with operation(Way.GIVES_UP) as made:
        assert isinstance(await transport.send(POST), Loss)
        assert made.is_injected
        assert inner.gate is not None
        inner.gate.set()
        await transport.aclose()
    assert inner.cancelled == 0
    assert made.steps[-1] == "delivery 1: 200"
