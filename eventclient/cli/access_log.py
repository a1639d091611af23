"""Where ``eventclient serve`` writes its access log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .failures import EXIT_USAGE, Failure


@contextmanager
def open_access_log(file: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes one line to the end of `file`, or to stdout, at once.

    Raises:
        Failure: the file cannot be opened.
    """
    try:
        # No buffer of ours: a reader of stdout that goes away must not be noticed again at the end.
        opened = (
            open(file, "ab", buffering=0)  # noqa: SIM115 - closed below
            if file is not None
            else open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115
        )
    except OSError as error:
        raise Failure(f"cannot write the access log {file}: {error.strerror}", EXIT_USAGE) from error

    def write(line: str) -> None:
        rest = memoryview(f"{line}\n".encode())
        while rest:
            rest = rest[opened.write(rest) :]

    with opened:
        yield write
