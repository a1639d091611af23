"""``eventclient serve``: the reference server, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from eventclient.devserver.faults import FaultScript
from eventclient.devserver.idempotency import KeyOptions
from eventclient.devserver.stores.postgres_keys import place_of

from .access_log import open_access_log
from .failures import EXIT_INTERRUPTED, narrate
from .server import embedded_server

_EXIT_CODES = """\b
Exit codes:
  0    terminated
  2    wrong use, or the file, the database or the address cannot be used
  130  interrupted
"""


_KEYS = KeyOptions()
_COLLECT_AFTER = 50_000
"""Objects that are made and not let go of before the collector looks."""


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
    "--dsn",
    envvar="EVENTCLIENT_SERVE_DSN",
    show_envvar=True,
    metavar="postgresql://...",
    help="PostgreSQL database to keep everything in, shared by any number of servers; needs the extra"
    " 'postgres'. Its tables are made in a schema of their own. Excludes --db.",
)
@click.option(
    "--check-run-time",
    is_flag=True,
    help="Refuse run ids minted more than a day ago or minutes ahead, as the hosted server does.",
)
@click.option(
    "--token",
    envvar="EVENTCLIENT_SERVE_TOKEN",
    show_envvar=True,
    help="Ask every caller for this token; others on the machine can read a command line.",
)
@click.option(
    "--allow-anyone",
    is_flag=True,
    help="Listen beyond this machine without a token: whoever reaches the port can read and write.",
)
@click.option(
    "--faults",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of faults to inject; see below.",
)
@click.option(
    "--access-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to append the access log to, one line of JSON per request; without it, stdout.",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(min=0, min_open=True),
    default=_KEYS.deadline_s,
    show_default=True,
    metavar="SECONDS",
    help="How long a request with an Idempotency-Key is waited for; then it is answered 504, goes on, and its"
    " answer can be collected under the same key.",
)
@click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(min=0, min_open=True),
    default=_KEYS.lease_s,
    show_default=True,
    metavar="SECONDS",
    help="How long a request holds its key; a server that died holds it up for so long.",
)
@click.option(
    "--key-retention",
    "retention_s",
    type=click.FloatRange(min=0, min_open=True),
    default=_KEYS.retention_s,
    show_default=True,
    metavar="SECONDS",
    help="How long the answer to a key is kept; after that it is a new one.",
)
@click.option("--no-access-log", is_flag=True, help="Keep no access log.")
@click.pass_context
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    db: Path | None,
    dsn: str | None,
    check_run_time: bool,
    token: str | None,
    allow_anyone: bool,
    faults: Path | None,
    access_log: Path | None,
    no_access_log: bool,
    deadline_s: float,
    lease_s: float,
    retention_s: float,
) -> None:
    """Run the reference server until it is interrupted or terminated.

    Its URL is told on stderr once it answers. SIGTERM ends it with exit code 0.

    A file of faults makes it misbehave, the same way each time for the same requests:

    \b
      seed = 7
      [[rule]]                # every fifth batch, at most 3 of them
      route = "batch"
      every = 5
      times = 3
      fault = "throttle"      # or refuse, challenge, delay, drop, cut,
      retry_after = "2"       # garbage, twice, stall

    All keys are in what `python -m pydoc eventclient.devserver.faults` shows; GET /__faults tells what was
    injected.

    GET / is a page that shows the runs, live; GET /healthz answers for as long as requests are taken.
    """
    if dsn is not None and not dsn.strip():
        raise click.UsageError("--dsn, or EVENTCLIENT_SERVE_DSN, is empty: name a database, or leave it out")
    if db is not None and dsn is not None:
        raise click.UsageError("--db and --dsn, or EVENTCLIENT_SERVE_DSN, exclude each other")
    options = {
        "dsn": dsn,
        "check_run_time": check_run_time,
        "token": token,
        "allow_anyone": allow_anyone,
        "faults": None if faults is None else FaultScript.load(faults),
        "keys": KeyOptions(deadline_s=deadline_s, lease_s=lease_s, retention_s=retention_s),
    }
    if no_access_log and access_log is not None:
        raise click.UsageError("--access-log and --no-access-log exclude each other")
    with nullcontext() if no_access_log else open_access_log(access_log) as log:
        received = asyncio.run(_serve(host, port, db, {**options, "access_log": log}))
    ctx.exit(EXIT_INTERRUPTED if received == signal.SIGINT else 0)


async def _serve(host: str, port: int, db: Path | None, options: dict[str, Any]) -> signal.Signals:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[signal.Signals] = loop.create_future()
    with _stopping_signals(loop, stop), _rare_collections():
        async with embedded_server(db, host=host, port=port, **options) as server:
            place = db or "in memory" if options["dsn"] is None else place_of(options["dsn"])
            narrate(f"eventclient reference server on {server.url} ({place}); stop it with Ctrl-C")
            return await stop


@contextmanager
def _rare_collections() -> Iterator[None]:
    """While it lasts, the cyclic garbage collector looks seldom, and not at what the process began with.

    Requests leave next to no cycles behind, and a look at every class, model and route costs a tenth of
    what the server does.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


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
