"""A relay on loopback between a client and a server that cuts exchanges at a given byte.

async with CuttingRelay(server.url) as relay, EventClient(relay.origin) as client:
    relay.cut_next(Cut(Part.ANSWER, at=17))
    ...
    assert [exchange.cut for exchange in relay.exchanges] == [Cut(Part.ANSWER, at=17), None]
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_MOST_BYTES: Final = 1 << 20


class Part(StrEnum):
    """Which half of an exchange is cut."""

    REQUEST = "request"
    """The server gets its beginning, and the end of the connection."""
    ANSWER = "answer"
    """The server has answered in full; the client gets its beginning, and the end of the connection."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an exchange is cut.

    Attributes:
        at: how many bytes pass, the first line and the headers included. At least one byte is held back,
            whatever it says: what passes whole is not cut.
        reset: end the connection with a reset instead of in peace.
        held: of a request only: the rest does not come, and nothing ends. What the server says then is
            passed on.
    """

    part: Part
    at: int
    reset: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it.

    Attributes:
        first_line: of the request.
        request_bytes: how long it was; `body_bytes` of it behind its headers.
        answer_bytes: how long the answer was, before it was cut; 0 where the server gave none.
        cut: how it was cut; None lets everything pass.
        passed_bytes: how much of the part that was cut went through.
    """

    first_line: bytes
    request_bytes: int
    body_bytes: int
    answer_bytes: int
    cut: Cut | None = None
    passed_bytes: int = 0


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CuttingRelay:
    """Passes requests on to `target` and answers back, one at a time on each connection.

    Args:
        target: ``http://HOST:PORT`` of the server, whose messages must say how long they are.
        strip: names of headers that are taken out of every answer.

    Attributes:
        exchanges: what has passed, in order.
    """

    def __init__(self, target: str, *, strip: Sequence[str] = ()) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._strip = [
            re.compile(rb"\r\n%b:[^\r]*" % re.escape(name.encode()), re.IGNORECASE) for name in strip
        ]
        self._cuts: deque[Cut | None] = deque()
        self._idle: list[Streams] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.exchanges: list[Exchange] = []

    @property
    def origin(self) -> str:
        """Its address, as a client takes it."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut_next(self, *cuts: Cut | None) -> None:
        """Cut the exchanges that begin next, in this order; None lets one pass, as all behind them do."""
        self._cuts = deque(cuts)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MOST_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: Streams) -> None:
        reader, writer = client
        try:
            while True:
                request = await _read_message(reader)
                cut = self._cuts.popleft() if self._cuts else None
                if cut is not None and cut.part is Part.REQUEST:
                    await self._cut_request(request, cut, writer)
                    return
                if not await self._pass(request, cut, writer):
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass  # The client went away.
        finally:
            writer.close()

    async def _pass(self, request: bytes, cut: Cut | None, writer: asyncio.StreamWriter) -> bool:
        """Let `request` through, and its answer as far as `cut` says; whether the connection goes on."""
        answer = await self._ask(request)
        passed = len(answer) if cut is None else min(cut.at, len(answer) - 1)
        self._note(request, len(answer), cut, passed)
        writer.write(answer[:passed])
        if cut is not None and cut.reset:
            _reset(writer)
        return cut is None

    async def _ask(self, request: bytes) -> bytes:
        """The whole answer to `request`."""
        server = self._idle.pop() if self._idle else await self._connect()
        server[1].write(request)
        answer = await _read_message(server[0])
        self._idle.append(server)
        head, blank, body = answer.partition(b"\r\n\r\n")
        for header in self._strip:
            head = header.sub(b"", head)
        return head + blank + body

    async def _cut_request(self, request: bytes, cut: Cut, writer: asyncio.StreamWriter) -> None:
        """Let the beginning of `request` through; the client hears of it when the server is done with it."""
        passed = min(cut.at, len(request) - 1)
        reader, server = await self._connect()
        server.write(request[:passed])
        answer = b""
        if cut.held:
            answer = await _read_message(reader)
            writer.write(answer)
        elif cut.reset:
            _reset(server)
        else:
            server.write_eof()
            # Until the server has ended the connection, too: it has seen all that it gets to see.
            answer = await reader.read()
        server.close()
        self._note(request, len(answer), cut, passed)
        if cut.reset:
            _reset(writer)

    def _note(self, request: bytes, answer_bytes: int, cut: Cut | None, passed: int) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        first_line = head.partition(b"\r\n")[0]
        self.exchanges.append(Exchange(first_line, len(request), len(body), answer_bytes, cut, passed))

    async def _connect(self) -> Streams:
        return await asyncio.open_connection(*self._target, limit=_MOST_BYTES)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if _CHUNKED.search(head) is not None:
        raise RuntimeError("a message that does not say how long it is")
    length = _LENGTH.search(head)
    return head if length is None else head + await reader.readexactly(int(length[1]))


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
