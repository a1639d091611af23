"""Finding and reading recorded runs on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventclient.recordings.layouts import LAYOUTS, find_runs, read_run
from eventclient.recordings.rows import RecordingError

RECORDINGS = Path(__file__).parent.parent / "recordings"
RUN = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
OTHER = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVZ"
SECRET = "do-not-repeat-me"


def event_id(slot: int) -> str:
    return f"evnt_{slot:026d}"


def write_event(folder: Path, run_id: str = RUN, slot: int = 1, tag: str = "", **fields: Any) -> Path:
    row = {"eventType": "run_started", "specVersion": 7, "runId": run_id, "eventId": event_id(slot)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run_id}-{event_id(slot)}{tag}.json"
    path.write_text(json.dumps({**row, "createdAt": "2026-11-30T02:08:43.611Z", **fields}))
    return path


def write_layout(layout: str, data: Path, run_id: str = RUN, slots: int = 3) -> Path:
    folder = {"flat": data / "events", "per-run": data / "events" / run_id}[layout]
    for slot in range(1, slots + 1):
        write_event(folder, run_id, slot)
    return folder


@pytest.mark.parametrize("layout", [layout.name for layout in LAYOUTS])
class TestEveryLayout:
    def test_the_data_directory_its_events_folder_and_a_file_are_found(
        self, layout: str, tmp_path: Path
    ) -> None:
        folder = write_layout(layout, tmp_path)
        one_file = sorted(folder.iterdir())[0]
        for path, count in ((tmp_path, 3), (tmp_path / "events", 3), (folder, 3), (one_file, 1)):
            found = find_runs([path])
            assert [(run.run_id, run.layout, len(run.files)) for run in found.runs] == [(RUN, layout, count)]
            assert found.ignored == ()

    def test_rows_come_by_event_id(self, layout: str, tmp_path: Path) -> None:
        write_layout(layout, tmp_path, slots=12)
        run = read_run(find_runs([tmp_path]).runs[0])
        assert [row.event_id for row in run.rows] == [event_id(slot) for slot in range(1, 13)]

    def test_runs_come_by_id(self, layout: str, tmp_path: Path) -> None:
        write_layout(layout, tmp_path, OTHER)
        write_layout(layout, tmp_path, RUN)
        assert [run.run_id for run in find_runs([tmp_path]).runs] == [RUN, OTHER]

    def test_a_tag_is_no_part_of_the_event_id(self, layout: str, tmp_path: Path) -> None:
        folder = write_layout(layout, tmp_path, slots=1)
        write_event(folder, slot=2, tag=".vitest-0")
        assert [name for name, _ in find_runs([tmp_path]).runs[0].files] == [event_id(1), event_id(2)]

    def test_the_same_event_under_two_tags_is_refused(self, layout: str, tmp_path: Path) -> None:
        folder = write_layout(layout, tmp_path)
        again = write_event(folder, slot=2, tag=".vitest-0")
        with pytest.raises(RecordingError, match=r"second time.*keep one of the two") as caught:
            find_runs([tmp_path])
        assert again.name in str(caught.value)

    def test_a_path_named_twice_is_one(self, layout: str, tmp_path: Path) -> None:
        folder = write_layout(layout, tmp_path)
        found = find_runs([tmp_path, tmp_path / "events", *folder.iterdir()])
        assert [len(run.files) for run in found.runs] == [3]

    @pytest.mark.parametrize(
        "name",
        [
            f"{RUN}-{event_id(9)}.json.tmp.01M8N3CBRD49RJFBJ1MY1YYZVY",
            f"{RUN}-{event_id(9)}.json.tmp",
            f"{RUN}-{event_id(9)}.tmp",
            f".{RUN}-{event_id(9)}.json.swp",
            f".{RUN}-{event_id(9)}.json",
            f"{RUN}-{event_id(9)}.json~",
            f"{RUN}-{event_id(9)}.json.bak",
            f"#{RUN}-{event_id(9)}.json#",
            ".DS_Store",
            "notes.txt",
            f"{RUN}.json",
            f"{RUN}-{event_id(9)} (copy).json",
        ],
    )
    def test_what_is_no_event_is_passed_over_and_told(self, layout: str, tmp_path: Path, name: str) -> None:
        folder = write_layout(layout, tmp_path)
        (folder / name).write_text("{")
        found = find_runs([tmp_path])
        assert len(found.runs[0].files) == 3
        assert [item.path.name for item in found.ignored] == [name]
        assert found.ignored[0].reason

    def test_an_unknown_folder_is_passed_over_and_told(self, layout: str, tmp_path: Path) -> None:
        write_layout(layout, tmp_path)
        write_event(tmp_path / "events" / "old")
        found = find_runs([tmp_path])
        assert [(item.path.name, len(found.runs)) for item in found.ignored] == [("old", 1)]


class TestPublishedRecordings:
    @pytest.mark.parametrize(
        ("folder", "layout", "counts"),
        [
            ("js-spec7-fanout", "flat", [153]),
            ("js-spec7-mixed", "flat", [67, 33, 8]),
            ("py-spec5", "per-run", [25, 8]),
        ],
    )
    def test_every_event_is_read(self, folder: str, layout: str, counts: list[int]) -> None:
        found = find_runs([RECORDINGS / folder])
        assert [len(read_run(run).rows) for run in found.runs] == counts
        assert {run.layout for run in found.runs} == {layout}
        assert found.ignored == ()

    def test_several_data_directories_come_in_the_order_named(self) -> None:
        found = find_runs([RECORDINGS / "py-spec5", RECORDINGS / "js-spec7-mixed"])
        assert [len(run.files) for run in found.runs] == [25, 8, 67, 33, 8]

    def test_a_folder_of_data_directories_names_them(self) -> None:
        with pytest.raises(RecordingError, match="js-spec7-fanout, js-spec7-mixed, py-spec5"):
            find_runs([RECORDINGS])


class TestDataDirectory:
    def test_a_path_is_taken_by_the_name_it_is_called_by(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = write_layout("per-run", tmp_path / "data")
        (tmp_path / RUN).symlink_to(folder.rename(tmp_path / "elsewhere"), target_is_directory=True)
        assert len(find_runs([tmp_path / RUN]).runs[0].files) == 3
        monkeypatch.chdir(tmp_path / RUN)
        (tmp_path / "elsewhere").rename(tmp_path / OTHER)
        with pytest.raises(RecordingError, match="another run"):
            find_runs([Path()])

    def test_what_lies_beside_the_events(self, tmp_path: Path) -> None:
        write_layout("flat", tmp_path)
        for name in ("runs", "steps", "hooks", "waits", "streams", ".locks", "mine"):
            (tmp_path / name).mkdir()
        (tmp_path / "version.txt").write_text("@workflow/world-local@5.0.0-beta.46")
        assert [item.path.name for item in find_runs([tmp_path]).ignored] == [".locks", "mine"]

    @pytest.mark.parametrize("name", ["absent", "empty", "notes.txt", "empty-data"])
    def test_a_path_without_events_says_what_to_name(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty-data" / "events").mkdir(parents=True)
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(RecordingError, match=r"name|path reads") as caught:
            find_runs([tmp_path / name])
        assert caught.value.path == tmp_path / name

    def test_an_unreadable_folder_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_layout("flat", tmp_path)

        def refuse(path: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "iterdir", refuse)
        with pytest.raises(RecordingError, match="Permission denied"):
            find_runs([tmp_path])


class TestOneRunTwice:
    def test_in_two_layouts(self, tmp_path: Path) -> None:
        write_layout("flat", tmp_path)
        write_layout("per-run", tmp_path)
        with pytest.raises(RecordingError, match=r"flat layout.*per-run layout.*keep one") as caught:
            find_runs([tmp_path])
        assert caught.value.run_id == RUN

    def test_two_runs_in_a_layout_each_are_fine(self, tmp_path: Path) -> None:
        write_layout("flat", tmp_path, RUN)
        write_layout("per-run", tmp_path, OTHER)
        assert {run.run_id: run.layout for run in find_runs([tmp_path]).runs} == {
            RUN: "flat",
            OTHER: "per-run",
        }

    def test_the_same_events_in_two_data_directories(self, tmp_path: Path) -> None:
        write_layout("flat", tmp_path / "a")
        write_layout("flat", tmp_path / "b")
        with pytest.raises(RecordingError, match="second time"):
            find_runs([tmp_path / "a", tmp_path / "b"])

    def test_other_events_in_two_data_directories(self, tmp_path: Path) -> None:
        write_event(tmp_path / "a" / "events", slot=1)
        write_event(tmp_path / "b" / "events", slot=2)
        with pytest.raises(RecordingError, match="name one of the two"):
            find_runs([tmp_path / "a", tmp_path / "b"])

    def test_in_the_folder_of_another_run(self, tmp_path: Path) -> None:
        folder = write_layout("per-run", tmp_path)
        write_event(folder, OTHER)
        with pytest.raises(RecordingError, match="folder of another run"):
            find_runs([tmp_path])


class TestReading:
    def read(self, tmp_path: Path) -> None:
        read_run(find_runs([tmp_path]).runs[0])

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "is empty"),
            (b" \n", "is empty"),
            (b'{"eventType": "' + SECRET.encode(), "is no JSON"),
            (b"\xff\xfe\xfa" + SECRET.encode(), "is no JSON"),
            (b'{"eventType": "run_started", "x": NaN, "y": "' + SECRET.encode() + b'"}', "is no JSON"),
            (b"[" * 100_000, "is no JSON"),
            (b'["' + SECRET.encode() + b'"]', "no eventType"),
            (b'{"x": "' + SECRET.encode() + b'"}', "no eventType"),
            (b'{"eventType": 5}', "no eventType"),
            (b'{"eventType": "run_started"}', "runId"),
        ],
    )
    def test_a_broken_file_is_named_and_its_content_is_not(
        self, tmp_path: Path, content: bytes, reason: str
    ) -> None:
        path = write_event(tmp_path / "events")
        path.write_bytes(content)
        with pytest.raises(RecordingError, match=reason) as caught:
            self.read(tmp_path)
        assert caught.value.path == path
        assert caught.value.run_id == RUN
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("key", ["runId", "eventId"])
    def test_a_file_under_a_false_name_is_refused(self, tmp_path: Path, key: str) -> None:
        fields: dict[str, Any] = {key: "other"}
        write_event(tmp_path / "events", **fields)
        with pytest.raises(RecordingError, match=f"its {key} is not the one in its name"):
            self.read(tmp_path)

    def test_a_file_that_went_away_is_told(self, tmp_path: Path) -> None:
        path = write_event(tmp_path / "events")
        run = find_runs([tmp_path]).runs[0]
        path.unlink()
        with pytest.raises(RecordingError, match="cannot be read: No such file"):
            read_run(run)

    def test_no_repr_shows_what_a_row_holds(self, tmp_path: Path) -> None:
        write_event(tmp_path / "events", eventData={"token": SECRET})
        run = read_run(find_runs([tmp_path]).runs[0])
        assert SECRET not in repr(run) + repr(run.rows[0])

    def test_a_run_is_read_without_the_others(self, tmp_path: Path) -> None:
        shutil.copytree(RECORDINGS / "js-spec7-mixed", tmp_path / "copy")
        write_event(tmp_path / "copy" / "events", OTHER).write_text("{")
        runs = {run.run_id: run for run in find_runs([tmp_path / "copy"]).runs}
        assert len(read_run(runs[RUN]).rows) == 8


def test_a_folder_in_the_place_of_an_event_file_is_told(tmp_path: Path) -> None:
    write_layout("flat", tmp_path, slots=2)
    folder = tmp_path / "events" / f"{RUN}-{event_id(3)}.json"
    folder.mkdir()
    recordings = find_runs([tmp_path])
    assert [entry.path for entry in recordings.ignored] == [folder]


def test_what_is_neither_a_file_nor_a_folder_is_refused() -> None:
    with pytest.raises(RecordingError, match="neither a file nor a folder"):
        find_runs([Path("/dev/null")])
