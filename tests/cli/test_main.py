"""What the command makes of errors that its verbs let through."""

from __future__ import annotations

import errno
import os

import pytest
from click.testing import CliRunner

from eventclient.cli.main import cli


def test_output_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cli.commands["replay"], "invoke", refuse)
    result = CliRunner().invoke(cli, ["replay", "tests/recordings/js-spec7-fanout"])
    assert result.exit_code == 2
    assert result.stderr == f"Error: cannot write the output: {os.strerror(errno.ENOSPC)}\n"
    assert result.stdout == ""
