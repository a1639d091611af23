"""The progress bar: on stderr, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[[str], None]]:
    """While it lasts, each call of what it yields moves the bar by one and names what it was."""
    # Asked here and not left to rich, which environment variables can talk into colour off a terminal.
    if not sys.stderr.isatty():
        yield lambda run_id: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda run_id: progress.update(task, advance=1, description=run_id)
