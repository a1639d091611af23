"""The reference server, as the verbs start it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.devserver.hidden import Hidden
from eventclient.devserver.idempotency import KeyOptions
from eventclient.devserver.stores import STORES

from .failures import EXIT_USAGE, Failure


@asynccontextmanager
async def embedded_server(
    db: Path | None,
    *,
    dsn: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    check_run_time: bool = False,
    token: str | None = None,
    allow_anyone: bool = False,
    faults: FaultScript | None = None,
    access_log: Callable[[str], None] | None = None,
    keys: KeyOptions | None = None,
    hidden: Hidden | None = None,
) -> AsyncIterator[DevServer]:
    """The server while the block lasts, keeping its state in the file `db`, in the PostgreSQL
    database `dsn`, or in memory.

    Raises:
        ConfigurationError: the file, the database, the token, the address without one, or the faults
            cannot be used.
        Failure: the address cannot be listened on.
    """
    store = None
    if dsn is not None:
        store = STORES["postgresql"](dsn)
    elif db is not None:
        store = STORES["sqlite"](str(db))
    server = DevServer(
        store,
        host=host,
        port=port,
        check_run_time=check_run_time,
        token=token,
        allow_anyone=allow_anyone,
        faults=faults,
        access_log=access_log,
        keys=keys,
        hidden=hidden,
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise Failure(f"cannot listen on {host} port {port}: {error.strerror}", EXIT_USAGE) from error
        yield server
