"""``eventclient replay``: recorded runs, posted again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from eventclient.client import environment
from eventclient.client.client import EventClient
from eventclient.client.options import ClientOptions
from eventclient.clock import SystemClock
from eventclient.recordings.layouts import find_runs, read_run
from eventclient.recordings.order import RunPlan, plan_run, rename_runs
from eventclient.recordings.rows import Recordings, RunFiles
from eventclient.replay.naming import mint_run_ids
from eventclient.replay.replaying import Replay
from eventclient.replay.report import ReplayReport, Settled

from .failures import EXIT_CODES, EXIT_REFUSED, Failure, failure_of, narrate, printable
from .formats import FORMATS, Format
from .progress import progress_bar
from .server import embedded_server

_MOST_TOLD = 20
"""How many of a kind are narrated before the rest is only counted."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where to post: a server by its URL, or the embedded one with its file."""

    url: str | None
    db: Path | None


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--to",
    metavar="URL",
    help=f"Server to post to. Default: ${environment.SERVER_URL}; without it, an embedded reference server."
    f" Its token is taken from ${environment.AUTH_TOKEN}.",
)
@click.option(
    "--db",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file of the embedded server. Default: memory that is gone at the end.",
)
@click.option("--run", "only", metavar="ID", multiple=True, help="Replay only this run; may be repeated.")
@click.option("--new-runs", is_flag=True, help="Post under newly minted run ids.")
@click.option("--no-batch", is_flag=True, help="One request per event.")
@click.option("--dry-run", is_flag=True, help="Tell what would be sent, and send nothing.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="What to write to stdout.",
)
def replay(
    paths: tuple[Path, ...],
    to: str | None,
    db: Path | None,
    only: tuple[str, ...],
    new_runs: bool,
    no_batch: bool,
    dry_run: bool,
    format_name: str,
) -> None:
    """Post recorded runs again, in the order of their logs.

    PATH is a data directory of a local World, its events folder, a run's folder or one event file.
    """
    target = _target(to, db)
    plans = _read(paths, only)
    if new_runs:
        run_ids = mint_run_ids(len(plans), now=SystemClock().wall(), entropy=secrets.randbits(80))
        plans = rename_runs(plans, run_ids)
    output = FORMATS[format_name]()
    if dry_run:
        output.planned(plans)
        return
    report = asyncio.run(_replay(plans, target, output, batch=not no_batch))
    if report.stopped is not None:
        raise failure_of(report.stopped)
    if not report.totals.applied:
        raise Failure("not everything was applied as recorded", EXIT_REFUSED)


def _target(to: str | None, db: Path | None) -> _Target:
    """Where to post.

    Raises:
        click.UsageError: a file for the embedded server is named along with another server.
    """
    if db is not None and to is not None:
        raise click.UsageError("--db is the file of the embedded server: it cannot be used with --to")
    url = to if to is not None else environment.read(environment.SERVER_URL)
    if db is not None and url is not None:
        raise click.UsageError(
            f"--db is the file of the embedded server, and ${environment.SERVER_URL} names another:"
            " unset the variable or leave out --db"
        )
    return _Target(url, db)


def _read(paths: Sequence[Path], only: Sequence[str]) -> list[RunPlan]:
    found = find_runs(paths)
    _tell(
        [f"passed over {printable(str(item.path))}: {item.reason}" for item in found.ignored],
        "passed over",
    )
    plans = [plan_run(read_run(run)) for run in _chosen(found, only)]
    for plan in plans:
        _tell(
            [f"{plan.run_id}: {item.row.event_id} is skipped: {item.reason}" for item in plan.skipped],
            "skipped",
        )
        _tell(
            [
                f"{plan.run_id}: the recording has no event for slot {first}"
                + (f" to {last}" if last > first else "")
                for first, last in plan.missing_slots
            ],
            "gaps",
        )
    return plans


def _chosen(found: Recordings, only: Sequence[str]) -> list[RunFiles]:
    if not only:
        return list(found.runs)
    recorded = {run.run_id for run in found.runs}
    unknown = [run_id for run_id in only if run_id not in recorded]
    if unknown:
        raise click.BadParameter(
            f"not recorded here: {', '.join(map(printable, unknown))};"
            f" there are {', '.join(sorted(recorded))}",
            param_hint="--run",
        )
    return [run for run in found.runs if run.run_id in only]


def _tell(lines: Sequence[str], what: str) -> None:
    for line in lines[:_MOST_TOLD]:
        narrate(line)
    if len(lines) > _MOST_TOLD:
        narrate(f"and {len(lines) - _MOST_TOLD} more {what}")


async def _replay(plans: Sequence[RunPlan], target: _Target, output: Format, *, batch: bool) -> ReplayReport:
    options = ClientOptions(batch=batch)
    events = sum(len(plan.postings) for plan in plans)
    async with _client(target, options) as client:
        with progress_bar(events, "replay") as advance:

            def settled(item: Settled) -> None:
                output.settled(item)
                advance(item.run_id)

            work = Replay(client, plans, clock=options.clock, on_settled=settled)
            try:
                report = await work.run()
            except asyncio.CancelledError:
                # What was settled before the interruption is in some log, and nobody could tell later.
                output.finished(work.report)
                raise
        output.finished(report)
        return report


@asynccontextmanager
async def _client(target: _Target, options: ClientOptions) -> AsyncIterator[EventClient]:
    if target.url is not None:
        token = environment.read(environment.AUTH_TOKEN)
        async with EventClient(target.url, token=token, options=options) as client:
            yield client
        return
    async with embedded_server(target.db) as server:
        narrate(f"no server named: posting to an embedded reference server on {server.url}")
        async with EventClient(server.url, options=options) as client:
            yield client
