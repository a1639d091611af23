"""What surely was not sent, what may have been, and that nothing else leaks out of the HTTP client."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from unittest.mock import Mock, PropertyMock

import aiohttp
import pytest
from yarl import URL

from eventclient import ClientOptions, EventClient, ProtocolError, TransportError
from eventclient.client.transport import AiohttpTransport, Answer, Loss, Request
from eventclient.wire.codec import encode_value
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Fault, Reply, ScriptedServer, refused_origin

from .answers import answered, batch_answer, log_reply, single_answer
from .samples import RUN, event, pair, steps
from .stage import Honest, stage
from .write_rows import SUBJECTS, Subject

NEVER = Reply(fault=Fault.NEVER)
# -- not sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
async def test_a_refused_connection_is_tried_twice_more_whatever_the_events(subject: Subject) -> None:
    clock = FakeClock()
    async with (
        refused_origin() as origin,
        EventClient(origin, options=ClientOptions(clock=clock)) as client,
    ):
        with pytest.raises(TransportError, match="no connection") as raised:
            await subject.write(client)
    assert raised.value.ambiguous is False
    assert clock.sleeps == [0.1, 0.2]
    receipts = raised.value.receipts
    assert [receipt.outcome.value for receipt in receipts] == ["unsent"] * len(subject.events)
    assert [attempt.cause for attempt in receipts[0].attempts] == ["not sent"] * 3


@pytest.fixture
def _no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: object, **kwargs: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", fail)


@pytest.mark.usefixtures("_no_names")
async def test_a_name_that_is_not_found_is_not_sent() -> None:
    clock = FakeClock()
    async with EventClient("https://nowhere.invalid", options=ClientOptions(clock=clock)) as client:
        with pytest.raises(TransportError) as raised:
            await client.create_batch(RUN, pair())
    assert raised.value.ambiguous is False
    assert clock.sleeps == [0.1, 0.2]
    assert "nowhere" not in str(raised.value)


async def test_waiting_for_a_free_connection_is_not_sending() -> None:
    async with stage([NEVER], max_connections=1, connect_timeout_s=0.1) as it:
        held = asyncio.ensure_future(it.client.create_batch(RUN, steps(2)))
        await it.server.arrival(1)
        with pytest.raises(TransportError, match="no connection in time") as raised:
            await it.client.create_batch("other", pair())
        assert raised.value.ambiguous is False
        assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unsent"}
        assert it.clock.sleeps == [0.1, 0.2]
        assert len(it.server.requests) == 1
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)


async def test_a_loss_that_is_not_sent_behind_one_that_may_have_been_is_ambiguous() -> None:
    async with stage([Reply(fault=Fault.RESET_BEFORE_RESPONSE)]) as it:
        original = it.clock.sleep

        async def sleep(delay_s: float) -> None:
            assert it.server._server is not None
            it.server._server.close()
            await original(delay_s)

        it.clock.sleep = sleep  # type: ignore[method-assign]
        with pytest.raises(TransportError) as raised:
            await it.client.create_batch(RUN, steps(2))
        told = [attempt.cause for attempt in raised.value.receipts[0].attempts]
        assert told == ["ambiguous", "not sent", "not sent"]
        assert raised.value.ambiguous is True
        assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unknown"}


# -- sent, and lost ----------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [NEVER, Reply(body=b"x" * 9, fault=Fault.STALL_MID_BODY, fault_after=3)])
@pytest.mark.parametrize(("events", "requests"), [(steps(2), 3), (pair(), 1)])
async def test_an_answer_that_does_not_come_in_time_is_ambiguous(
    reply: Reply, events: list[object], requests: int
) -> None:
    async with stage([reply], repeat_last=True, read_timeout_s=0.05) as it:
        with pytest.raises(TransportError, match="no answer in time") as raised:
            await it.client.create_batch(RUN, events)  # type: ignore[arg-type]
        assert raised.value.ambiguous is True
        assert len(it.posts) == requests


@pytest.mark.parametrize("name", ["read_timeout_s", "request_timeout_s"])
async def test_either_timeout_ends_an_attempt(name: str) -> None:
    options: dict[str, Any] = {"connect_timeout_s": 0.2, "read_timeout_s": 9.0, "request_timeout_s": 9.0}
    options[name] = 0.3
    async with stage([NEVER], **options) as it:
        with pytest.raises(TransportError, match="in time"):
            await it.client.create(RUN, event("step_started"))


async def test_an_answer_over_the_limit_is_ambiguous() -> None:
    for chunks in (None, [100] * 20):
        async with stage([Reply(body=b"x" * 3000, chunks=chunks)], max_answer_bytes=1000) as it:
            with pytest.raises(TransportError, match="longer than 1000 bytes") as raised:
                await it.client.create_batch(RUN, pair())
            assert (raised.value.ambiguous, raised.value.status) == (True, 200)


async def test_a_body_that_ends_with_its_connection_counts_if_it_is_whole() -> None:
    body = batch_answer(steps(2))
    for cut, expected in ((len(body), "created"), (len(body) - 1, "unknown")):
        data = b"HTTP/1.1 200 OK\r\n\r\n" + body[:cut]

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes = data
        ) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            writer.write(data)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with EventClient(origin, options=ClientOptions(clock=FakeClock())) as client:
                if expected == "created":
                    assert len((await client.create_batch(RUN, steps(2))).created) == 2
                else:
                    with pytest.raises(ProtocolError) as raised:
                        await client.create_batch(RUN, steps(2))
                    assert {receipt.outcome.value for receipt in raised.value.receipts} == {expected}


async def test_a_large_answer_in_many_pieces_is_read() -> None:
    events = [event("step_created", f"step_{number}", stepName="n" * 5000) for number in range(30)]
    async with stage([Reply(body=batch_answer(events), chunks=[1, 2, 3, 4000, 7])]) as it:
        assert len((await it.client.create_batch(RUN, events)).created) == 30


async def test_a_large_body_is_sent_whole() -> None:
    payload = bytes(range(256)) * 8192
    async with stage(Honest(), max_batch_bytes=4 << 20) as it:
        for _ in range(2):
            receipt = await it.client.create(RUN, event("step_created", input=payload))
            assert receipt.outcome == "created"
        assert it.server.identical_bodies
        assert it.server.requests[0].body.endswith(payload)


async def test_a_large_body_is_sent_whole_again() -> None:
    item = event("step_created", input=b"x" * (2 << 20))
    script = [Reply(status=503), Reply(fault=Fault.RESET_BEFORE_RESPONSE), answered(single_answer(item))]
    async with stage(script, max_batch_bytes=4 << 20) as it:
        await it.client.create(RUN, item)
        assert len(it.server.requests) == 3
        assert it.server.identical_bodies


# -- the transport by itself -------------------------------------------------------------------


def get(origin: str) -> Request:
    return Request("GET", URL(origin), "a read", {}, partial=True)


async def test_a_part_of_an_answer_is_kept_where_parts_are_asked_for() -> None:
    script = [Reply(body=b"abcdef", fault=Fault.CLOSE_MID_BODY, fault_after=4), log_reply(b"xyz")]
    async with ScriptedServer(script) as server:
        transport = AiohttpTransport(ClientOptions())
        part, whole = await transport.send(get(server.origin)), await transport.send(get(server.origin))
        await transport.aclose()
    assert isinstance(part, Answer)
    assert isinstance(whole, Answer)
    assert (part.status, part.body) == (200, b"abcdef"[:4])
    assert part.cut is not None
    assert (whole.body, whole.cut) == (b"xyz", None)


async def test_a_read_over_a_dead_connection_is_not_repeated_behind_our_back() -> None:
    script = [log_reply(b"a"), Reply(fault=Fault.CLOSE_BEFORE_RESPONSE), log_reply(b"b")]
    async with ScriptedServer(script) as server:
        transport = AiohttpTransport(ClientOptions())
        await transport.send(get(server.origin))
        lost = await transport.send(get(server.origin))
        await transport.aclose()
        assert isinstance(lost, Loss)
        assert len(server.requests) == 2


async def test_what_a_session_is_set_to_does_not_change_what_is_sent() -> None:
    script = [Reply(status=302, headers={"Location": "/elsewhere"}), Reply(status=404, body=b"{}")]
    async with ScriptedServer(script) as server, aiohttp.ClientSession(raise_for_status=True) as session:
        transport = AiohttpTransport(ClientOptions(), session)
        request = Request("POST", URL(server.origin), "a post", {"x": "1"}, encode_value({}))
        for status in (302, 404):
            answer = await transport.send(request)
            assert isinstance(answer, Answer)
            assert answer.status == status
        assert [seen.method for seen in server.requests] == ["POST", "POST"]
        await transport.aclose()


async def test_every_timeout_is_set() -> None:
    transport = AiohttpTransport(ClientOptions())
    for timeout in (transport._write_timeout, transport._list_timeout):
        named = (timeout.total, timeout.connect, timeout.sock_connect, timeout.sock_read)
        assert None not in named


async def test_after_closing_nothing_is_sent() -> None:
    transport = AiohttpTransport(ClientOptions())
    await transport.aclose()
    async with ScriptedServer([]) as server:
        lost = await transport.send(get(server.origin))
        assert isinstance(lost, Loss)
        assert lost.sent is False
        assert server.connections == 0


@pytest.mark.parametrize("closed", [True, False])
async def test_only_a_closed_session_may_fail_in_its_own_way(closed: bool) -> None:
    session = Mock(spec=aiohttp.ClientSession)
    # Open when the request begins, and closed, or not, when it fails.
    type(session).closed = PropertyMock(side_effect=[False, closed])
    session.request.side_effect = RuntimeError("Session is closed")
    transport = AiohttpTransport(ClientOptions(), session)
    if closed:
        lost = await transport.send(get("http://127.0.0.1"))
        assert isinstance(lost, Loss)
        assert lost.sent is False
    else:
        with pytest.raises(RuntimeError, match="Session is closed"):
            await transport.send(get("http://127.0.0.1"))
