"""``python -m eventclient`` is the ``eventclient`` command."""

from __future__ import annotations

import sys

_CLI_PACKAGES = frozenset({"click", "rich"})
"""What the extra named cli brings; a program that only uses the library needs none of it."""


def main() -> None:
    """Run the command and exit with its code; 2 when the packages it needs are not installed."""
    try:
        from eventclient.cli.main import cli
    except ModuleNotFoundError as error:
        if error.name not in _CLI_PACKAGES:
            raise
        print(
            f"The eventclient command needs the package {error.name}. Install it with:\n"
            "  pip install 'eventclient[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    cli(prog_name="eventclient")


if __name__ == "__main__":
    main()
