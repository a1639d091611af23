"""What the report of a drill looks like."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from eventclient.cli.drill_formats import DRILL_FORMATS
from eventclient.drill.faults import Fault
from eventclient.drill.report import DrillReport, FaultTally, Schedule, Violation

PASSED = DrillReport(
    seed=7,
    operations=1000,
    deliveries=1234,
    faults={fault: FaultTally(20, 20) for fault in Fault},
    effects=(0, 1000, 0),
    replays=77,
    unknown=0,
    violations=(),
    schedule=None,
    elapsed_s=1.23456,
)
FAILED = replace(
    PASSED,
    effects=(1, 997, 2),
    violations=(Violation(5, "operation 5 (x)", "2 effects of its key"), Violation(None, "run r", "gap")),
    schedule=Schedule(5, "operation 5 (x)", ("delivery 1 is sent", "delivery 1: 200"), alone=True),
)


def written(report: DrillReport, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    DRILL_FORMATS[name](report)
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(PASSED, "text", capsys).splitlines() == [
        "operations                                    1000",
        "deliveries                                    1234",
        "faults injected                               100",
        "  answer lost after commit                    20",
        "  duplicate delivery                          20",
        "  crash between claim and commit              20",
        "  same key with another payload               20",
        "  client timeout shorter than the execution   20",
        "keys with 0 effects                           0",
        "keys with 1 effect                            1000",
        "keys with 2+ effects                          0",
        "duplicates answered from the record           77",
        "violations                                    0",
        "verdict                                       pass",
    ]


def test_what_is_wrong_follows_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = written(FAILED, "text", capsys).splitlines()
    assert lines[-6:] == [
        "verdict                                       FAIL",
        "operation 5 (x): 2 effects of its key",
        "run r: gap",
        "shortest schedule: operation 5 (x); made once more, alone:",
        "  1 delivery 1 is sent",
        "  2 delivery 1: 200",
    ]


def test_a_schedule_that_does_not_show_alone_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    schedule = Schedule(5, "operation 5 (x)", ("delivery 1 is sent",), alone=False)
    lines = written(replace(FAILED, schedule=schedule), "text", capsys).splitlines()
    assert lines[-2] == ("shortest schedule: operation 5 (x); as it went in the drill, not shown by itself:")


def test_many_violations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    violations = tuple(Violation(index, f"operation {index}", "wrong") for index in range(23))
    lines = written(replace(PASSED, violations=violations), "text", capsys).splitlines()
    assert lines[-1] == "and 3 more"
    assert lines[-2] == "operation 19: wrong"


def test_faults_that_did_not_happen(capsys: pytest.CaptureFixture[str]) -> None:
    faults = {**PASSED.faults, Fault.CRASH: FaultTally(0, 0, "a reason"), Fault.IMPATIENCE: FaultTally(20, 3)}
    lines = written(replace(PASSED, faults=faults, unknown=4), "text", capsys).splitlines()
    assert "faults injected                               63" in lines
    assert "  crash between claim and commit              not injected: a reason" in lines
    assert "  client timeout shorter than the execution   3 of 20" in lines
    assert "outcomes unknown to the client                4" in lines


def test_nothing_a_terminal_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    violations = (Violation(1, "operation\x1b[2J", "wrong\nverdict pass"),)
    schedule = Schedule(1, "operation\x1b", ("delivery\x1b",), alone=True)
    told = written(replace(PASSED, violations=violations, schedule=schedule), "text", capsys)
    assert "\x1b" not in told
    assert len(told.splitlines()) == 14 + 3


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    value: dict[str, Any] = json.loads(written(FAILED, "json", capsys))
    assert value == {
        "seed": 7,
        "operations": 1000,
        "deliveries": 1234,
        "faults": {fault: {"planned": 20, "injected": 20, "reason": None} for fault in Fault},
        "keys": {"0": 1, "1": 997, "2+": 2},
        "replays": 77,
        "unknown": 0,
        "violations": [
            {"operation": 5, "subject": "operation 5 (x)", "told": "2 effects of its key"},
            {"operation": None, "subject": "run r", "told": "gap"},
        ],
        "schedule": {
            "operation": 5,
            "subject": "operation 5 (x)",
            "alone": True,
            "steps": ["delivery 1 is sent", "delivery 1: 200"],
        },
        "seconds": 1.235,
        "passed": False,
    }
    assert json.loads(written(PASSED, "json", capsys))["passed"] is True
