"""``eventclient serve``: the reference server, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from .failures import EXIT_INTERRUPTED, narrate
from .server import embedded_server

_EXIT_CODES = """\b
Exit codes:
  0    terminated
  2    wrong use, or the file or the address cannot be used
  130  interrupted
"""


@click.command(epilog=_EXIT_CODES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=4437,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file to keep everything in; without it, memory that is gone at the end.",
)
@click.option(
    "--check-run-time",
    is_flag=True,
    help="Refuse run ids minted more than a day ago or minutes ahead, as the hosted server does.",
)
@click.pass_context
def serve(ctx: click.Context, host: str, port: int, db: Path | None, check_run_time: bool) -> None:
    """Run the reference server until it is interrupted or terminated.

    Its URL is told on stderr once it answers. SIGTERM ends it with exit code 0.
    """
    received = asyncio.run(_serve(host, port, db, check_run_time))
    ctx.exit(EXIT_INTERRUPTED if received == signal.SIGINT else 0)


async def _serve(host: str, port: int, db: Path | None, check_run_time: bool) -> signal.Signals:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[signal.Signals] = loop.create_future()
    with _stopping_signals(loop, stop):
        async with embedded_server(db, host=host, port=port, check_run_time=check_run_time) as server:
            narrate(
                f"eventclient reference server on {server.url} ({db or 'in memory'}); stop it with Ctrl-C"
            )
            return await stop


@contextmanager
def _stopping_signals(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Future[signal.Signals]
) -> Iterator[None]:
    """While it lasts, SIGINT and SIGTERM are the result of `stop`."""

    def end(received: signal.Signals) -> None:
        if not stop.done():
            stop.set_result(received)

    def receive(number: int, _: object) -> None:
        loop.call_soon_threadsafe(end, signal.Signals(number))

    # Not the loop's own add_signal_handler, which Windows does not have.
    before = {each: signal.signal(each, receive) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
