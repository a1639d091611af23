"""The reference server, as the verbs start it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from eventclient.devserver.app import DevServer
from eventclient.devserver.stores import STORES

from .failures import EXIT_USAGE, Failure


@asynccontextmanager
async def embedded_server(
    db: Path | None, *, host: str = "127.0.0.1", port: int = 0, check_run_time: bool = False
) -> AsyncIterator[DevServer]:
    """The server while the block lasts, keeping its state in the file `db`, or in memory.

    Raises:
        ConfigurationError: the file cannot be used.
        Failure: the address cannot be listened on.
    """
    store = None if db is None else STORES["sqlite"](str(db))
    server = DevServer(store, host=host, port=port, check_run_time=check_run_time)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise Failure(f"cannot listen on {host} port {port}: {error.strerror}", EXIT_USAGE) from error
        yield server
