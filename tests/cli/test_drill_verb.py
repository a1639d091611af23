"""``eventclient drill`` from the outside."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventclient.cli.main import cli
from eventclient.client import environment
from eventclient.devserver.app import DevServer
from eventclient.drill.drilling import Drill
from eventclient.drill.report import DrillReport
from eventclient.wire.spec import KILL_SWITCH
from tests.support.scripted_server import Reply, ScriptedServer

SECRET = "do-not-repeat-me"
SMALL = ("--ops", "20", "--rate", "0.25", "--seed", "3")
"""Every fault once."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (environment.SERVER_URL, environment.AUTH_TOKEN, KILL_SWITCH):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def drill(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["drill", *arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def rows(result: Result) -> dict[str, str]:
    """The table by its first column."""
    return {line[:46].strip(): line[46:] for line in result.stdout.splitlines()}


def test_a_drill_that_passes(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Replays take a server from there; a drill would fill it with runs nobody asked for.
    monkeypatch.setenv(environment.SERVER_URL, "http://unreachable.invalid")
    result = drill(*SMALL)
    table = rows(result)
    assert table["operations"] == "20"
    assert table["faults injected"] == "5"
    assert table["keys with 1 effect"] == "20"
    assert table["verdict"] == "pass"
    assert result.stderr.splitlines()[0] == "drilling with --ops 20 --rate 0.25 --seed 3"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("protection", ["recorded", "none"])
def test_a_drill_that_fails(protection: str, temporary: Path) -> None:
    result = drill(*SMALL, "--protection", protection, code=1)
    table = rows(result)
    assert table["verdict"] == "FAIL"
    assert int(table["keys with 2+ effects"]) > 0
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("shortest schedule: operation "))
    assert lines[at].endswith("; made once more, alone:")
    assert lines[at + 1] == "  1 delivery 1 is sent"
    assert any(line.endswith(" violation: 2 effects of its key") for line in lines[at:])
    assert result.stderr.splitlines()[-1] == "Error: the drill found violations"
    assert list(temporary.iterdir()) == []


def test_json_and_nothing_else() -> None:
    result = drill("--ops", "5", "--rate", "0", "--format", "json")
    value = json.loads(result.stdout)
    assert value["operations"] == value["deliveries"] == 5
    assert value["passed"] is True
    assert f"--seed {value['seed']}" in result.stderr


async def test_somebody_else_s_server_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.AUTH_TOKEN, SECRET)
    async with DevServer(token=SECRET) as server:
        result = await asyncio.to_thread(drill, *SMALL, "--to", server.url)
    table = rows(result)
    assert table["crash between claim and commit"] == "not injected: needs the drill's own server"
    assert table["faults injected"] == "5"
    assert table["keys with 1 effect"] == "20"
    assert SECRET not in result.output


async def test_a_server_that_keeps_no_keys() -> None:
    async with ScriptedServer([Reply(status=404)]) as server:
        result = await asyncio.to_thread(drill, "--to", server.origin, code=2)
    assert "does not keep idempotency keys" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--ops", "0"], "--ops"),
        (["--rate", "1.1"], "--rate"),
        (["--seed", "-1"], "--seed"),
        (["--format", "jsonl"], "--format"),
        (["--to", "http://127.0.0.1:1", "--dsn", "postgresql:///x"], "--dsn"),
        (["--to", "http://127.0.0.1:1", "--protection", "none"], "--protection"),
        (["--to", "ftp://127.0.0.1"], "http"),
        (["--to", "http://127.0.0.1:1"], "cannot be reached"),
        (["--dsn", "postgresql:///x?host=/does/not/exist"], "cannot use the PostgreSQL database"),
    ],
)
def test_wrong_use(arguments: list[str], told: str) -> None:
    result = drill(*arguments, code=2)
    assert told in result.stderr
    assert result.stdout == ""


def test_a_token_never_goes_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.AUTH_TOKEN, SECRET)
    result = drill("--to", "http://example.invalid", code=2)
    assert "plain http" in result.stderr
    assert SECRET not in result.output


def test_interrupted(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupt(drill: Drill) -> DrillReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(Drill, "run", interrupt)
    assert "interrupted" in drill(code=130).stderr
    assert list(temporary.iterdir()) == []


def test_help_tells_the_exit_codes_and_not_the_switch() -> None:
    text = drill("--help").stdout
    for part in ("--ops", "--rate", "--seed", "--to", "--dsn", "--format", "Exit codes:", "130"):
        assert part in text
    assert "--protection" not in text
