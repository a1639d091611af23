"""The reference server as a process that can be killed and comes back at its address."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from types import TracebackType
from typing import Final, Self

from tests.support.server_process import ROOT

_PORT: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


class KillableServer:
    """``eventclient serve`` with `arguments`, on a free port that it keeps, while the block lasts."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it listens, or did and will again."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start it and wait until it listens.

        Raises:
            RuntimeError: it does not.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "eventclient", "serve", "--port", str(self._port), "--no-access-log", *self._arguments),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stderr is not None
        told = (await self._process.stderr.readline()).decode()
        port = _PORT.search(told)
        if port is None:
            await self.kill()
            raise RuntimeError(f"the server did not start: {told}")
        self._port = int(port[1])

    async def kill(self) -> None:
        """Kill it: nothing more runs in it. Returns when it is gone."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
