"""From errors to exit codes and a message of few lines. No user sees a traceback."""

from __future__ import annotations

from typing import Final

import click

from eventclient.errors import ConfigurationError, EventClientError, InvalidEventError, ThrottleError
from eventclient.recordings.rows import RecordingError
from eventclient.replay.replaying import RunTakenError

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_THROTTLED: Final = 3
EXIT_INTERRUPTED: Final = 130

EXIT_CODES: Final = """\b
Exit codes:
  0    all applied; own earlier writes and expected refusals count
  1    some refused, not sent, or stored differently
  2    wrong use or unreadable input
  3    the throttle budget ran out with the rest unsent
  130  interrupted
"""

_CODES: Final[tuple[tuple[type[EventClientError], int], ...]] = (
    (RecordingError, EXIT_USAGE),
    (ConfigurationError, EXIT_USAGE),
    (InvalidEventError, EXIT_USAGE),
    (ThrottleError, EXIT_THROTTLED),
    (EventClientError, EXIT_REFUSED),
)
"""The first row whose class fits an error gives its exit code."""


class Failure(click.ClickException):
    """Ends the command with a message on stderr and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares one for each class


def exit_code_of(error: EventClientError) -> int:
    """The exit code an error stands for."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def failure_of(error: EventClientError) -> Failure:
    """`error` as the end of the command."""
    message = printable(str(error))
    if isinstance(error, RunTakenError):
        message += (
            "\nReplay under new run ids with --new-runs, choose other runs with --run,"
            " or write to another server or --db file."
        )
    return Failure(message, exit_code_of(error))


def printable(text: str) -> str:
    """`text` on one line and without what a terminal would act on: names and messages come from outside."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def narrate(text: str) -> None:
    """Tell the user something that is not data: on stderr."""
    click.echo(text, err=True)
