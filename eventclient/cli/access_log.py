"""Where ``eventclient serve`` writes its access log."""

from __future__ import annotations

import selectors
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

from .failures import EXIT_USAGE, Failure, narrate

MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""How much of the log waits for a slow reader; what comes beyond it is dropped, and counted."""
FLUSH_S: Final = 2.0
"""How long the end waits for what is still to be written."""


class LogWriter:
    """Writes lines to `file` from a thread of its own: a reader that does not read stops that thread alone.

    Lines that were dropped, since too much was waiting, leave one line ``{"dropped": n}`` in their place.
    What cannot be written at all ends the log with a warning.

    Args:
        file: unbuffered; closed by `close`, unless its reader is stuck.
    """

    def __init__(self, file: FileIO, *, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._file = file
        self._max_waiting_bytes = max_waiting_bytes
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._is_closing = False
        self._has_failed = False
        # A daemon, as a write to a stuck reader does not end and must not keep the process.
        self._thread = threading.Thread(target=self._run, name="eventclient-access-log", daemon=True)
        self._thread.start()

    def take(self, line: str) -> None:
        """Have a line written. Never waits for whoever reads it."""
        data = f"{line}\n".encode()
        with self._changed:
            if self._has_failed:
                return
            # Once something is dropped the rest is, too, until it can be told where: none overtakes the gap.
            if self._dropped or self._waiting_bytes + len(data) > self._max_waiting_bytes:
                self._dropped += 1
            else:
                self._lines.append(data)
                self._waiting_bytes += len(data)
            self._changed.notify()

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Write what waits, for `timeout_s` at most, and close the file."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            # The file stays open: the thread is writing to it.
            narrate("the end of the access log is missing, nobody reads it")
        else:
            self._file.close()

    def _run(self) -> None:
        while data := self._next():
            try:
                self._write(data)
            except OSError as error:
                with self._changed:
                    self._has_failed = True
                    self._lines.clear()
                narrate(f"the access log ends here, it cannot be written: {error.strerror or error}")
                return
            with self._changed:
                self._waiting_bytes -= len(data)

    def _next(self) -> bytes:
        """Everything that waits, once there is something; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._dropped or self._is_closing)
            if self._dropped:
                gap = b'{"dropped":%d}\n' % self._dropped
                self._lines.append(gap)
                self._waiting_bytes += len(gap)
                self._dropped = 0
            data = b"".join(self._lines)
            self._lines.clear()
            return data

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # None, and no error, is what a file that does not block answers when it is full.
            written = self._file.write(rest)
            if written is None:
                _wait_until_writable(self._file)
            else:
                rest = rest[written:]


@contextmanager
def open_access_log(file: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that has one line written to the end of `file`, or to stdout, without waiting for it.

    Raises:
        Failure: the file cannot be opened.
    """
    try:
        # No buffer of ours: a reader of stdout that goes away must not be noticed again at the end.
        opened = FileIO(file, "a") if file is not None else FileIO(sys.stdout.fileno(), "w", closefd=False)
    except OSError as error:
        raise Failure(f"cannot write the access log {file}: {error.strerror}", EXIT_USAGE) from error
    writer = LogWriter(opened)
    try:
        yield writer.take
    finally:
        writer.close()


def _wait_until_writable(file: FileIO) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_WRITE)
        selector.select()
