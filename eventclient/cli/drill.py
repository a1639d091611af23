"""``eventclient drill``: whether every write is executed once, tried under faults."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from eventclient.client import environment
from eventclient.clock import SystemClock
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.drill.drilling import Drill
from eventclient.drill.grounds import Ground, OtherGround, OwnGround, check_support, mint_run_ids
from eventclient.drill.plan import DrillOptions
from eventclient.drill.report import DrillReport
from eventclient.drill.stalls import KEYS

from .drill_formats import DRILL_FORMATS
from .failures import EXIT_REFUSED, Failure, narrate
from .progress import progress_bar
from .server import embedded_server

DRILL_EXIT_CODES: Final = """\b
Exit codes:
  0    no violation: every write is executed once, and every answer is true
  1    a violation, or a log that could not be read
  2    wrong use, or a server that cannot be used or keeps no keys
  130  interrupted
"""


@click.command(epilog=DRILL_EXIT_CODES)
@click.option(
    "--ops",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many logical operations, each under a key of its own.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, max=1),
    default=0.1,
    show_default=True,
    help="Share of the operations that meets a fault.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="What operations and faults are drawn from. Default: a new one, which is told.",
)
@click.option(
    "--to",
    metavar="URL",
    help="Server to drill. Default: an embedded one, the only kind that can be made to crash and stall."
    f" Its token is taken from ${environment.AUTH_TOKEN}.",
)
@click.option(
    "--dsn",
    metavar="DSN",
    help="PostgreSQL database of the embedded server, where the drill's runs stay."
    " Default: an SQLite file that is gone at the end.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(DRILL_FORMATS)),
    default="text",
    show_default=True,
    help="What to write to stdout.",
)
@click.option(
    "--protection", type=click.Choice([str(one) for one in Protection]), default="fenced", hidden=True
)
def drill(
    ops: int,
    rate: float,
    seed: int | None,
    to: str | None,
    dsn: str | None,
    format_name: str,
    protection: str,
) -> None:
    """Show that every write is executed once, whatever becomes of its requests.

    Writes through the client to a server, with faults: answers lost after the commit, duplicate deliveries,
    crashes between claim and commit, keys used again with another payload, and clients that time out before
    the server is done. Then counts what the server's log holds of each write. A violation is told with the
    shortest schedule that shows it.
    """
    if to is not None and dsn is not None:
        raise click.UsageError("--dsn is the database of the embedded server: it cannot be used with --to")
    if to is not None and protection != Protection.FENCED:
        raise click.UsageError("--protection is the embedded server's: it cannot be used with --to")
    if seed is None:
        seed = secrets.randbelow(1 << 32)
    options = DrillOptions(ops=ops, rate=rate, seed=seed)
    narrate(f"drilling with --ops {ops} --rate {rate:g} --seed {seed}")
    if to is not None:
        report = asyncio.run(_drill_other(to, options))
    else:
        with _place(dsn) as db:
            serve = partial(_serve, db, dsn)
            report = asyncio.run(_drill(OwnGround(serve, Protection(protection)), options))
    DRILL_FORMATS[format_name](report)
    narrate(f"{report.elapsed_s:.1f} s")
    if not report.passed:
        raise Failure("the drill found violations", EXIT_REFUSED)


@contextmanager
def _place(dsn: str | None) -> Iterator[Path | None]:
    """A file for the embedded server, gone at the end; None when its state is in a database."""
    if dsn is not None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="eventclient-drill-") as folder:
        yield Path(folder) / "drill.db"


def _serve(db: Path | None, dsn: str | None, hidden: Hidden) -> AbstractAsyncContextManager[DevServer]:
    return embedded_server(db, dsn=dsn, keys=KEYS, hidden=hidden)


async def _drill_other(url: str, options: DrillOptions) -> DrillReport:
    token = environment.read(environment.AUTH_TOKEN)
    (run_id,) = mint_run_ids(1, SystemClock().wall(), secrets.randbits(80))
    await check_support(url, token, run_id)
    return await _drill(OtherGround(url, token), options)


async def _drill(ground: Ground, options: DrillOptions) -> DrillReport:
    with progress_bar(options.ops, "drill") as advance:
        return await Drill(ground, options, on_done=advance).run()
