"""``eventclient replay`` from the outside."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eventclient.cli.main import cli
from eventclient.client import environment
from eventclient.clock import SystemClock
from eventclient.model.ids import slot_event_id, ulid_time
from eventclient.wire.spec import KILL_SWITCH

RECORDINGS = Path(__file__).parent.parent / "recordings"
FANOUT = str(RECORDINGS / "js-spec7-fanout")
MIXED = str(RECORDINGS / "js-spec7-mixed")
PYTHON = str(RECORDINGS / "py-spec5")
RUN = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
SECRET = "do-not-repeat-me"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (environment.SERVER_URL, environment.AUTH_TOKEN, KILL_SWITCH):
        monkeypatch.delenv(name, raising=False)


def replay(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["replay", *arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def sums(*arguments: str, code: int = 0) -> dict[str, Any]:
    result = replay(*arguments, "--format", "json", code=code)
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    return parsed


def write_run(data: Path, rows: list[dict[str, Any]], run_id: str = RUN) -> Path:
    (data / "events").mkdir(parents=True, exist_ok=True)
    for slot, row in enumerate(rows, 1):
        event_id = slot_event_id(slot)
        fields = {"specVersion": 7, "createdAt": "2026-11-30T02:08:43.611Z", "runId": run_id}
        path = data / "events" / f"{run_id}-{event_id}.json"
        path.write_text(json.dumps({**fields, "eventId": event_id, **row}))
    return data


START: list[dict[str, Any]] = [
    {"eventType": "run_created", "eventData": {"deploymentId": "d", "workflowName": "w"}},
    {"eventType": "run_started"},
]


def count_events(db: Path) -> int:
    with sqlite3.connect(db) as connection:
        (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
    connection.close()
    return int(count)


class TestFormats:
    def test_text_ends_with_one_line_of_sums(self) -> None:
        result = replay(FANOUT)
        last = result.stdout.splitlines()[-1]
        for part in (
            "153 events,",
            "events per request",
            "153 created",
            "0 conflicts",
            "0 refused",
            "seconds,",
            "seconds throttled",
        ):
            assert part in last
        assert "embedded reference server on http://127.0.0.1:" in result.stderr

    def test_json_is_one_object_and_nothing_else(self) -> None:
        report = sums(MIXED)
        assert (report["events"], report["created"], report["applied"]) == (108, 108, True)
        assert [run["events"] for run in report["runs"]] == [67, 33, 8]
        assert report["requests"] == sum(run["requests"] for run in report["runs"])
        assert {"events_per_request", "conflicts", "refused", "seconds", "throttled_seconds"} <= set(report)

    def test_jsonl_is_an_object_for_each_event_and_one_of_sums(self) -> None:
        *events, summary = map(json.loads, replay(MIXED, "--format", "jsonl").stdout.splitlines())
        assert len(events) == 108
        assert {"run", "index", "type", "outcome", "status"} <= set(events[0])
        assert [event["index"] for event in events[:67]] == list(range(67))
        assert (summary["summary"], summary["created"]) == (True, 108)

    def test_few_requests_and_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert sums(FANOUT)["requests"] <= 15
        assert sums(FANOUT, "--no-batch")["requests"] == 153
        monkeypatch.setenv(KILL_SWITCH, "0")
        assert sums(FANOUT)["requests"] == 153

    def test_a_log_below_slots(self) -> None:
        report = sums(PYTHON)
        assert (report["created"], report["requests"]) == (33, 35)

    def test_nothing_colours_a_pipe(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        result = replay(MIXED)
        assert "\x1b" not in result.stdout + result.stderr


class TestRefusals:
    def test_foretold_ones_count_apart_and_are_no_failure(self, tmp_path: Path) -> None:
        done = {"eventType": "run_completed", "eventData": {}}
        data = write_run(tmp_path, [*START, done, done])
        report = sums(str(data))
        assert (report["created"], report["expected"], report["conflicts"]) == (3, 1, 0)
        assert report["runs"][0]["unapplied"][0]["verdict"] == "expected"
        assert "1 expected refusals" in replay(str(data)).stdout.splitlines()[-1]

    def test_others_are_told_and_end_with_1(self, tmp_path: Path) -> None:
        data = write_run(tmp_path, [*START, {"eventType": "step_started", "correlationId": "step_a"}])
        result = replay(str(data), code=1)
        assert f"{RUN} event 2 step_started: refused 404: " in result.stdout
        assert "not everything was applied" in result.stderr
        report = sums(str(data), code=1)
        assert (report["refused"], report["applied"]) == (1, False)
        *_, event, _ = map(json.loads, replay(str(data), "--format", "jsonl", code=1).stdout.splitlines())
        assert (event["outcome"], event["status"], event["verdict"]) == ("rejected", 404, "refused")

    def test_what_was_stored_otherwise_is_told_and_ends_with_1(self, tmp_path: Path) -> None:
        conflict = {
            "eventType": "hook_conflict",
            "correlationId": "hook_a",
            "eventData": {"token": SECRET, "conflictingRunId": "wrun_2"},
        }
        result = replay(str(write_run(tmp_path, [*START, conflict])), code=1)
        assert "differing 200: recorded as hook_conflict, stored as hook_created" in result.stdout
        assert "1 differing" in result.stdout.splitlines()[-1]
        assert SECRET not in result.output

    def test_a_second_time_into_one_file_writes_nothing(self, tmp_path: Path) -> None:
        db = tmp_path / "log.db"
        assert sums(MIXED, "--run", RUN, "--db", str(db))["created"] == 8
        result = replay(MIXED, "--db", str(db), code=1)
        assert RUN in result.stderr
        assert "--new-runs" in result.stderr
        assert result.stdout == ""
        assert count_events(db) == 8

    def test_new_runs_can_be_written_any_number_of_times(self, tmp_path: Path) -> None:
        db = tmp_path / "log.db"
        ids: set[str] = set()
        for _ in range(2):
            runs = sums(MIXED, "--db", str(db), "--new-runs")["runs"]
            ids |= {run["run"] for run in runs}
            assert [run["run"] for run in runs] == sorted(run["run"] for run in runs)
            assert runs[2]["recorded_run"] == RUN
        assert len(ids) == 6
        assert RUN not in ids
        assert all(ulid_time(run_id) for run_id in ids)
        assert count_events(db) == 216

    def test_a_server_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def jump(clock: SystemClock, delay_s: float) -> None:
            pass

        monkeypatch.setattr(SystemClock, "sleep", jump)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            result = replay(MIXED, "--to", f"http://127.0.0.1:{unused.getsockname()[1]}", code=1)
        assert result.stdout == ""
        assert "no connection" in result.stderr


class TestChoosing:
    def test_only_the_runs_named(self) -> None:
        report = sums(MIXED, PYTHON, "--run", RUN, "--run", "wrun_01M8N4RWTN7NBMKE766NYD6RX3")
        assert [run["events"] for run in report["runs"]] == [8, 8]

    def test_a_run_that_is_not_there(self) -> None:
        result = replay(MIXED, "--run", "wrun_\x1b[31m", code=2)
        assert RUN in result.stderr
        assert "\x1b" not in result.stderr

    def test_a_run_is_replayed_from_its_folder(self) -> None:
        folder = RECORDINGS / "py-spec5" / "events" / "wrun_01M8N4RWTN7NBMKE766NYD6RX3"
        assert sums(str(folder))["created"] == 8

    def test_a_broken_file_of_another_run_is_in_nobodys_way(self, tmp_path: Path) -> None:
        shutil.copytree(MIXED, tmp_path / "copy")
        write_run(tmp_path / "copy", [{}], "wrun_broken")
        assert sums(str(tmp_path / "copy"), "--run", RUN)["created"] == 8
        assert "eventType" in replay(str(tmp_path / "copy"), code=2).stderr


class TestDryRun:
    @pytest.fixture(autouse=True)
    def _no_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a dry run must not start anything")

        monkeypatch.setattr("eventclient.cli.replay.asyncio.run", refuse)

    def test_text(self) -> None:
        lines = replay(MIXED, "--dry-run").stdout.splitlines()
        assert len(lines) == 4
        assert lines[-1] == "dry run: 108 events in 3 runs would be sent; nothing was"

    def test_json(self) -> None:
        report = sums(MIXED, "--dry-run", "--new-runs", "--to", "http://unreachable.invalid")
        assert (report["dry_run"], report["events"], len(report["runs"])) == (True, 108, 3)
        assert report["runs"][2]["recorded_run"] == RUN != report["runs"][2]["run"]

    def test_jsonl(self, tmp_path: Path) -> None:
        done = {"eventType": "run_completed", "eventData": {}}
        data = write_run(tmp_path, [*START, done, done, {"eventType": "noop"}])
        *events, summary = map(
            json.loads, replay(str(data), "--dry-run", "--format", "jsonl").stdout.splitlines()
        )
        assert [event["expected_refusals"] for event in events] == [[], [], [], [409]]
        assert (summary["events"], summary["skipped"]) == (4, 1)

    def test_nothing_of_event_data_is_shown(self, tmp_path: Path) -> None:
        hook = {"eventType": "hook_created", "correlationId": "hook_a", "eventData": {"token": SECRET}}
        data = write_run(tmp_path, [*START, hook])
        for name in ("text", "json", "jsonl"):
            assert SECRET not in replay(str(data), "--dry-run", "--format", name).output

    def test_what_is_passed_over_skipped_or_missing_is_told(self, tmp_path: Path) -> None:
        data = write_run(tmp_path, [*START, {"eventType": "noop"}, {"eventType": "noop"}, START[1]])
        (data / "events" / f"{RUN}-{slot_event_id(2)}.json").unlink()
        for index in range(25):
            (data / "events" / f"{index:02}\x1b.json.tmp").write_text("")
        told = replay(str(data), "--dry-run").stderr
        assert told.count("passed over ") == 20
        assert "and 5 more passed over" in told
        assert "\x1b" not in told
        assert told.count("is skipped") == 2
        assert "has no event for slot 2\n" in told


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "PATH"),
            (["/does/not/exist"], "does not exist"),
            ([str(RECORDINGS)], "name one of the data directories in it"),
            ([MIXED, "--to", "http://127.0.0.1:1", "--db", "x.db"], "--db"),
            ([MIXED, "--to", "ftp://127.0.0.1"], "http"),
            ([MIXED, "--format", "yaml"], "--format"),
            ([MIXED, "--db", "/does/not/exist/x.db"], "/does/not/exist/x.db"),
            ([MIXED, "--dbb", "x"], "No such option"),
        ],
    )
    def test_it_is_told_and_ends_with_2(self, arguments: list[str], told: str) -> None:
        result = replay(*arguments, code=2)
        assert told in result.stderr
        assert result.stdout == ""

    def test_a_file_beside_a_server_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(environment.SERVER_URL, "http://127.0.0.1:1")
        assert environment.SERVER_URL in replay(MIXED, "--db", "x.db", code=2).stderr

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        path = tmp_path / "x.db"
        path.write_text("no database" * 100)
        assert str(path) in replay(MIXED, "--db", str(path), code=2).stderr

    def test_a_token_never_goes_over_plain_http(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(environment.AUTH_TOKEN, SECRET)
        result = replay(MIXED, "--to", "http://example.invalid", code=2)
        assert SECRET not in result.output

    def test_an_event_the_client_refuses(self, tmp_path: Path) -> None:
        data = write_run(tmp_path, [*START, {"eventType": "wait_created", "eventData": {"resumeAt": "soon"}}])
        result = replay(str(data), code=2)
        assert f"{RUN}-{slot_event_id(3)}.json" in result.stderr
