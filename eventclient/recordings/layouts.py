"""Where recorded events lie on disk, and how their files are read.

Source of the layouts and of the names beside them: `@workflow/world-local` 5.0.0-beta.46 (flat) and
`vercel-workflow` 0.12.0 (one folder per run).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import Ignored, RecordedRow, RecordedRun, RecordingError, Recordings, RunFiles

_RUN = r"(?P<run>wrun_[0-9A-Za-z_]+)"
_FILE = r"-(?P<event>evnt_[0-9A-Za-z]+)(?:\.(?P<tag>[^./]+))?\.json"


@dataclass(frozen=True, slots=True)
class Layout:
    """One way of laying out event files.

    Attributes:
        name: what people call it.
        shape: how a file's path reads from the data directory.
        pattern: what a file's path, from the ``events`` folder, must match; groups `run` and `event`.
    """

    name: str
    shape: str
    pattern: re.Pattern[str]


LAYOUTS = (
    Layout("flat", "events/<runId>-<eventId>[.<tag>].json", re.compile(_RUN + _FILE, re.ASCII)),
    Layout(
        "per-run",
        "events/<runId>/<runId>-<eventId>[.<tag>].json",
        re.compile(_RUN + "/(?P=run)" + _FILE, re.ASCII),
    ),
)
"""One row per layout."""

_RUN_FOLDER = re.compile(_RUN, re.ASCII)
_EVENT_FILE = re.compile(_RUN + _FILE, re.ASCII)
_LEFTOVERS = (
    # Writers put ".tmp" and a random part behind the name, rename when the file is whole, and leave
    # it when they die in between.
    (re.compile(r".*\.te?mp(\..*)?", re.IGNORECASE), "a temporary file"),
    (re.compile(r"\..*"), "hidden"),
    (re.compile(r".*(~|\.sw[a-z]|\.bak|\.orig|\.rej)|#.*#", re.IGNORECASE), "an editor's leftover"),
)
_BESIDE_EVENTS = frozenset({"events", "runs", "steps", "hooks", "waits", "streams", "version.txt"})
"""What a data directory holds beside its log: entities, streams, the writer's version."""

_SHAPES = " or ".join(layout.shape for layout in LAYOUTS)


@dataclass(frozen=True, slots=True)
class _Found:
    layout: str
    run_id: str
    event_id: str
    path: Path


def find_runs(paths: Sequence[Path]) -> Recordings:
    """The runs recorded under `paths`, without reading an event.

    Args:
        paths: each a data directory, its ``events`` folder, a run's folder, or one event file.

    Raises:
        RecordingError: a path holds no recorded event, or a run or an event is there twice.
    """
    runs: dict[str, RunFiles] = {}
    ignored: dict[Path, Ignored] = {}
    files: dict[Path, _Found] = {}
    for path in paths:
        found = _find(path, ignored)
        if not found:
            raise RecordingError(path, _nothing_in(path))
        # One file named by two of the paths is one file, not an event twice.
        new = sorted((item for item in found if item.path.resolve() not in files), key=_place)
        files.update((item.path.resolve(), item) for item in new)
    for run_id, items in _by_run(files.values()).items():
        runs[run_id] = _one_run(run_id, items)
    return Recordings(tuple(runs.values()), tuple(ignored.values()))


def read_run(run: RunFiles) -> RecordedRun:
    """The recorded rows of `run`.

    Raises:
        RecordingError: a file cannot be read, or is not the event that its name says.
    """
    rows = tuple(_read_row(path, run.run_id, event_id) for event_id, path in run.files)
    return RecordedRun(run.run_id, run.folder, rows)


def _place(item: _Found) -> tuple[str, str]:
    return item.run_id, item.event_id


def _by_run(items: Iterable[_Found]) -> dict[str, list[_Found]]:
    runs: dict[str, list[_Found]] = {}
    for item in items:
        runs.setdefault(item.run_id, []).append(item)
    return runs


def _one_run(run_id: str, items: Sequence[_Found]) -> RunFiles:
    first = items[0]
    files: dict[str, Path] = {}
    for item in sorted(items, key=_place):
        if item.layout != first.layout:
            raise RecordingError(
                item.path,
                f"the run lies here in the {item.layout} layout and in {first.path.parent} in the"
                f" {first.layout} layout: keep one of the two",
                run_id=run_id,
            )
        if item.event_id in files:
            raise RecordingError(
                item.path,
                f"the event is recorded a second time, beside {files[item.event_id]}: keep one of the two",
                run_id=run_id,
            )
        files[item.event_id] = item.path
    folders = {item.path.parent.resolve(): item.path.parent for item in items}
    if len(folders) > 1:
        here, there = list(folders.values())[:2]
        raise RecordingError(
            there, f"the run is recorded here and in {here}: name one of the two", run_id=run_id
        )
    return RunFiles(run_id, first.layout, first.path.parent, tuple(files.items()))


def _find(path: Path, ignored: dict[Path, Ignored]) -> list[_Found]:
    try:
        if not path.exists():
            return []
        if (path / "events").is_dir():
            _pass_over_beside(path, ignored)
            path = path / "events"
        folder, entries = (path, sorted(path.iterdir())) if path.is_dir() else (path.parent, [path])
        # By the name it is called by, which a link's target need not share; ".." is no name.
        name = os.path.basename(os.path.abspath(folder))
        return list(_match(entries, name if _RUN_FOLDER.fullmatch(name) else None, ignored))
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from error


def _pass_over_beside(data_directory: Path, ignored: dict[Path, Ignored]) -> None:
    for entry in sorted(data_directory.iterdir()):
        if entry.name not in _BESIDE_EVENTS:
            _pass_over(entry, ignored, "no part of a data directory")


def _match(entries: Iterable[Path], run_folder: str | None, ignored: dict[Path, Ignored]) -> Iterator[_Found]:
    """The event files among `entries`; run folders among them are walked, the rest is passed over.

    `run_folder` is the name of the run's folder that the entries lie in, if they lie in one.
    """
    for entry in entries:
        if entry.is_dir():
            is_run = _RUN_FOLDER.fullmatch(entry.name) and not _EVENT_FILE.fullmatch(entry.name)
            if run_folder is None and is_run:
                yield from _match(sorted(entry.iterdir()), entry.name, ignored)
            else:
                _pass_over(entry, ignored, "no folder of a run")
            continue
        if _leftover(entry.name) or not _EVENT_FILE.fullmatch(entry.name):
            _pass_over(entry, ignored, "no name of an event file")
            continue
        relative = f"{run_folder}/{entry.name}" if run_folder else entry.name
        for layout in LAYOUTS:
            if match := layout.pattern.fullmatch(relative):
                yield _Found(layout.name, match["run"], match["event"], entry)
                break
        else:
            raise RecordingError(
                entry, f"lies in the folder of another run, {run_folder}: move it to its own"
            )


def _leftover(name: str) -> str | None:
    return next((reason for pattern, reason in _LEFTOVERS if pattern.fullmatch(name)), None)


def _pass_over(entry: Path, ignored: dict[Path, Ignored], reason: str) -> None:
    ignored[entry.resolve()] = Ignored(entry, _leftover(entry.name) or reason)


def _nothing_in(path: Path) -> str:
    if not path.exists():
        return "does not exist: name a data directory, its events folder, a run's folder or an event file"
    if path.is_file():
        return f"is no event file by its name: a path reads {_SHAPES}"
    if not path.is_dir():
        return "is neither a file nor a folder: name a data directory, an events folder or an event file"
    inside = sorted(child.name for child in path.iterdir() if (child / "events").is_dir())
    if inside:
        return f"holds no recorded event itself; name one of the data directories in it: {', '.join(inside)}"
    return f"holds no recorded event: name the folder in which {_SHAPES} lie"


def _read_row(path: Path, run_id: str, event_id: str) -> RecordedRow:
    fields = _read_json(path, run_id)
    if not isinstance(fields, dict) or not isinstance(fields.get("eventType"), str):
        raise RecordingError(
            path, "is JSON and no event: it has no eventType; move it away or mend it", run_id=run_id
        )
    for key, expected in (("runId", run_id), ("eventId", event_id)):
        if fields.get(key) != expected:
            raise RecordingError(
                path, f"its {key} is not the one in its name: give it its own name back", run_id=run_id
            )
    return RecordedRow(path, run_id, event_id, fields["eventType"], fields)


def _read_json(path: Path, run_id: str) -> Any:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}", run_id=run_id) from error
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        what = "is empty" if not content.strip() else "is no JSON"
        # The decoder's own message is left out together with the content it points into.
        raise RecordingError(
            path,
            f"{what}, as after a write that was cut short: restore it, or move it away if the run can do"
            " without this event",
            run_id=run_id,
        ) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
