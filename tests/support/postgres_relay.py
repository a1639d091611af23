"""A relay in front of a PostgreSQL cluster that loses what it is told to lose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

_COMMIT: Final = b"COMMIT\0"
"""The end of the statement, and of the tag that the server answers it with."""


class Relay:
    """Listens in `folder` and passes everything on to `target`, a cluster's socket."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._folder = folder
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lose_commit = False
        self._lose_answer = False
        self._arrives = True

    def dsn(self, dsn: str) -> str:
        """`dsn`, by way of this relay."""
        return f"{dsn.partition('?')[0]}?host={quote(str(self._folder), safe='')}"

    def cut_commit(self, *, arrives: bool) -> None:
        """Break the connection of the next commit: before it arrives, or when it is answered."""
        self._lose_commit, self._arrives = True, arrives

    def cut_answer(self) -> None:
        """Break the connection on which the server answers next."""
        self._lose_answer = True

    async def __aenter__(self) -> Self:
        path = self._folder / self._target.name
        self._server = await asyncio.start_unix_server(self._accept, path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        both = (writer, server_writer)
        committing = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, server_writer, committing))
                group.create_task(self._answer(server_reader, writer, committing))
        except* (_CutError, OSError):
            pass
        finally:
            for each in both:
                each.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, committing: asyncio.Event
    ) -> None:
        while data := await reader.read(65536):
            if self._lose_commit and _COMMIT in data:
                self._lose_commit = False
                if not self._arrives:
                    raise _CutError
                committing.set()
            writer.write(data)
            await writer.drain()
        raise _CutError

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, committing: asyncio.Event
    ) -> None:
        while data := await reader.read(65536):
            if committing.is_set() and _COMMIT in data:
                raise _CutError
            if self._lose_answer:
                self._lose_answer = False
                raise _CutError
            writer.write(data)
            await writer.drain()
        raise _CutError


class _CutError(Exception):
    """The connection is to be broken."""
