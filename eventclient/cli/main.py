"""The ``eventclient`` command."""

from __future__ import annotations

from typing import Any

import click

import eventclient
from eventclient.errors import EventClientError

from .drill import drill
from .failures import EXIT_CODES, EXIT_INTERRUPTED, EXIT_USAGE, Failure, failure_of
from .replay import replay
from .serve import serve


class _Commands(click.Group):
    """A group whose verbs may let the library's errors and an interruption through."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EventClientError as error:
            raise failure_of(error) from error
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            # What was written to the server is there; only the telling of it failed.
            raise Failure(f"cannot write the output: {error.strerror or error}", EXIT_USAGE) from None
        except KeyboardInterrupt:
            raise Failure("interrupted", EXIT_INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(eventclient.__version__, prog_name="eventclient")
def cli() -> None:
    """Write workflow events in ordered batches, and replay recorded ones.

    Data goes to stdout, everything else to stderr.
    """


cli.add_command(drill)
cli.add_command(replay)
cli.add_command(serve)
