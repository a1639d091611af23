"""A loopback HTTP server that plays a script of answers, broken ones included, and records what it was sent.

    script = [Reply(status=429, headers={"Retry-After": "2"}), Reply(body=answer)]
    async with ScriptedServer(script) as server:
        async with EventClient(server.origin, options=ClientOptions(clock=FakeClock())) as client:
            ...
        assert len(server.requests) == 2
        assert server.identical_bodies
        assert server.unscripted == 0

It waits for nothing: a test that needs an answer to be late gives the reply a `gate` and opens it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """How an answer is broken. The request has always been read whole before."""

    CLOSE_BEFORE_RESPONSE = "close_before_response"
    RESET_BEFORE_RESPONSE = "reset_before_response"
    CLOSE_MID_HEADERS = "close_mid_headers"
    CLOSE_MID_BODY = "close_mid_body"
    """Content-Length says the whole body; `Reply.fault_after` bytes of it come, then the end."""
    RESET_MID_BODY = "reset_mid_body"
    CLOSE_MID_CHUNKED = "close_mid_chunked"
    """Chunked; `Reply.fault_after` bytes come, then the end without a last chunk."""
    NEVER = "never"
    """Nothing comes, and the connection stays open."""
    STALL_MID_BODY = "stall_mid_body"
    """As CLOSE_MID_BODY, but the connection stays open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer.

    Attributes:
        headers: a mapping, or pairs where a name comes twice. Content-Length, or Transfer-Encoding when
            `chunks` is given, is added.
        chunks: sizes in which `body` is sent, chunked; what they leave over is one last chunk.
        fault: how the answer is broken, if it is; `fault_after` is how much of the body comes before.
        gate: the answer waits for it.
        close: end the connection after the answer.
    """

    status: int = 200
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    body: bytes = b""
    chunks: Sequence[int] | None = None
    fault: Fault | None = None
    fault_after: int = 0
    gate: asyncio.Event | None = None
    close: bool = False


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request as it arrived.

    Attributes:
        target: path and query as sent, escapes included.
        connection: index of the TCP connection, from 0.
    """

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes
    connection: int

    @property
    def raw_path(self) -> str:
        """The path as sent, escapes included."""
        return self.target.partition("?")[0]

    @property
    def path(self) -> str:
        """The path without escapes."""
        return unquote(self.raw_path)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The pairs of the query, in order, without escapes."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)


Script = Sequence[Reply] | Callable[[SeenRequest], Reply]
EXHAUSTED: Final = Reply(status=418, headers={"Content-Type": "text/plain"}, body=b"the script has ended")
"""What a request behind the end of the script gets: a refusal, so that nothing is sent again."""


@dataclass(slots=True)
class ScriptedServer:
    """Plays `script`: replies in order of arrival, or a function from request to reply.

    Attributes:
        repeat_last: the last reply answers everything that follows.
        requests: what arrived, in order.
        unscripted: how many requests came behind the end of the script.
    """

    script: Script
    repeat_last: bool = False
    requests: list[SeenRequest] = field(default_factory=list)
    unscripted: int = 0
    connections: int = 0
    _server: asyncio.Server | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._closing.set()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    @property
    def origin(self) -> str:
        """The server's address, as `EventClient` takes it."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def identical_bodies(self) -> bool:
        """Whether all requests had the same body."""
        return len({request.body for request in self.requests}) <= 1

    async def arrival(self, count: int) -> None:
        """Return once `count` requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer, self.connections))
        self.connections += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        self._writers.add(writer)
        try:
            while True:
                request = await _read_request(reader, connection)
                reply = self._next(request)
                async with self._arrived:
                    self._arrived.notify_all()
                if reply.gate is not None and not await self._opened(reply.gate):
                    return
                if not await self._answer(writer, reply):
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass  # The client went away.
        finally:
            self._writers.discard(writer)
            writer.close()

    def _next(self, request: SeenRequest) -> Reply:
        index = len(self.requests)
        self.requests.append(request)
        if callable(self.script):
            return self.script(request)
        if index < len(self.script):
            return self.script[index]
        if self.repeat_last:
            return self.script[-1]
        self.unscripted += 1
        return EXHAUSTED

    async def _opened(self, gate: asyncio.Event) -> bool:
        """Whether `gate` opened before the server closed."""
        waits = [asyncio.ensure_future(event.wait()) for event in (gate, self._closing)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return gate.is_set()

    async def _answer(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        """Send `reply`; returns whether the connection goes on."""
        data = _payload(reply)
        if data:
            writer.write(data)
            await writer.drain()
        if reply.fault in (Fault.NEVER, Fault.STALL_MID_BODY):
            await self._closing.wait()
        if reply.fault in (Fault.RESET_BEFORE_RESPONSE, Fault.RESET_MID_BODY):
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        return reply.fault is None and not reply.close


def _payload(reply: Reply) -> bytes:
    """All bytes of `reply` that are sent."""
    fault = reply.fault
    if fault in (Fault.CLOSE_BEFORE_RESPONSE, Fault.RESET_BEFORE_RESPONSE, Fault.NEVER):
        return b""
    chunked = reply.chunks is not None or fault is Fault.CLOSE_MID_CHUNKED
    head = _head(reply, chunked)
    if fault is Fault.CLOSE_MID_HEADERS:
        return head[: len(head) // 2]
    if not chunked:
        return head + (reply.body if fault is None else reply.body[: reply.fault_after])
    body = reply.body if fault is None else reply.body[: reply.fault_after]
    pieces, at = [], 0
    for size in (*(reply.chunks or ()), len(body)):
        piece = body[at : at + size]
        at += len(piece)
        if piece:
            pieces.append(b"%x\r\n%b\r\n" % (len(piece), piece))
    return head + b"".join(pieces) + (b"0\r\n\r\n" if fault is None else b"")


def _head(reply: Reply, chunked: bool) -> bytes:
    pairs = list(reply.headers.items() if isinstance(reply.headers, Mapping) else reply.headers)
    names = {name.lower() for name, _ in pairs}
    bodyless = reply.status in (204, 304)
    if chunked:
        pairs.append(("Transfer-Encoding", "chunked"))
    elif "content-length" not in names and not bodyless:
        pairs.append(("Content-Length", str(len(reply.body))))
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in pairs), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _read_request(reader: asyncio.StreamReader, connection: int) -> SeenRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name, value.strip())
    body = b""
    if headers.get("Transfer-Encoding", "") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    elif length := int(headers.get("Content-Length", "0")):
        body = await reader.readexactly(length)
    return SeenRequest(method, target, headers, body, connection)


@asynccontextmanager
async def refused_origin() -> AsyncIterator[str]:
    """The address of a port that is ours and at which nobody listens: connecting is refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
