"""Recorded rows as values: they show where they are from and nothing of what they hold."""

from __future__ import annotations

import copy
from pathlib import Path

from eventclient.recordings.rows import RecordedRow, RecordedRun, RecordingError, RunFiles

SECRET = "do-not-show-me"
PATH = Path("events/r-evnt_1.json")


def test_rows_show_no_contents() -> None:
    row = RecordedRow(PATH, "r", "evnt_1", "run_started", {"eventData": SECRET})
    run = RecordedRun("r", PATH.parent, (row,))
    assert SECRET not in repr(row) + repr(run)
    assert "evnt_1" in repr(row)


def test_files_are_told_by_their_run_and_layout() -> None:
    files = RunFiles("r", "flat", PATH.parent, (("evnt_1", PATH),))
    assert repr(files) == f"RunFiles(run_id='r', layout='flat', folder={PATH.parent!r})"


def test_an_error_names_the_file_and_the_reason() -> None:
    error = RecordingError(PATH, "is cut off", run_id="r")
    assert str(error) == f"{PATH}: is cut off [run r]"
    again = copy.copy(error)
    assert (again.path, again.reason, str(again)) == (PATH, "is cut off", str(error))
