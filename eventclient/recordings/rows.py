"""What is read from disk: recorded rows, the runs they belong to, and what was passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eventclient.errors import EventClientError


class RecordingError(EventClientError):
    """Recorded files cannot be read or used as they are. Nothing was sent.

    Attributes:
        path: the file or folder to look at.
        reason: why, in a sentence, with what to do. It never repeats what a file holds.
    """

    def __init__(self, path: Path, reason: str, *, run_id: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", run_id=run_id)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file or folder that was passed over, and why. Somebody may have expected it to be read."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The event files of one run, found and not yet read.

    Attributes:
        run_id: the run.
        layout: the name of the layout they lie in.
        folder: where they lie.
        files: event id and path of each, by event id.
    """

    run_id: str
    layout: str
    folder: Path
    files: tuple[tuple[str, Path], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recordings:
    """What some paths hold: the runs in the order of the paths, then by run id; and what was passed over."""

    runs: tuple[RunFiles, ...]
    ignored: tuple[Ignored, ...]


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One recorded event as its file holds it.

    Attributes:
        path: the file.
        run_id, event_id: whose it is and its place in the log.
        event_type: its type, not yet checked against the types that exist.
        fields: the whole JSON object. Payloads are in it, so it is never shown.
    """

    path: Path
    run_id: str
    event_id: str
    event_type: str
    fields: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The recorded events of one run, by event id."""

    run_id: str
    folder: Path
    rows: tuple[RecordedRow, ...] = field(repr=False)
