"""Bytes to the reference server and back, below HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class RawAnswer:
    """One answer as it came, up to where it ended.

    Attributes:
        reset: the connection was reset, and not ended.
    """

    data: bytes
    reset: bool = False

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def head(self) -> dict[str, str]:
        lines = self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def json(self) -> dict[str, Any]:
        """The body of a refusal, checked to be whole and of the one form."""
        assert self.head["content-type"].startswith("application/json")
        assert len(self.body) == int(self.head["content-length"])
        refused: dict[str, Any] = json.loads(self.body)
        assert set(refused) == {"message", "code"}
        return refused

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.json["code"]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> RawAnswer:
    """What comes until the connection ends."""
    data = bytearray()
    try:
        while piece := await reader.read(65536):
            data += piece
    except ConnectionResetError:
        return RawAnswer(bytes(data), reset=True)
    return RawAnswer(bytes(data))


async def exchange(url: str, *pieces: bytes) -> RawAnswer:
    """Send `pieces` one after the other, and read what comes until the connection ends."""
    async with connected(url) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return await read_all(reader)


def head(method: str, path: str, **fields: str | int) -> bytes:
    """A request line and headers; underscores in names are dashes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def request(method: str, path: str, body: bytes = b"", **fields: str | int) -> bytes:
    """A whole request that asks for the end of the connection after it."""
    return head(method, path, Content_Length=len(body), Connection="close", **fields) + body
