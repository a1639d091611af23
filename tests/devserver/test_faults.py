"""Fault scripts: what is taken, what an error says, and which requests meet which fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.devserver.fault_plan import MAX_RECENT, Asked, FaultPlan, draw_chance
from eventclient.devserver.faults import KINDS, FaultScript
from eventclient.errors import ConfigurationError

EXAMPLE = Path(__file__).parent / "fault_scripts" / "every_kind.toml"

BATCH = Asked("POST /api/v4/runs/wrun_a/events/batch", "batch", "wrun_a", ("step_created", "wait_created"))
SINGLE = Asked("POST /api/v4/runs/wrun_b/events/run_created", "single", "wrun_b", ("run_created",))
LIST = Asked("GET /api/v4/runs/wrun_a/events", "list", "wrun_a")
HEALTH = Asked("GET /healthz", "health")
REQUESTS = st.lists(st.sampled_from([BATCH, SINGLE, LIST, HEALTH]), max_size=60)


def plan_of(*rules: dict[str, Any], seed: int = 0) -> FaultPlan:
    return FaultPlan(FaultScript.model_validate({"seed": seed, "rule": list(rules)}))


def fired(plan: FaultPlan, asked: list[Asked]) -> list[list[int]]:
    """Numbers of the rules that fire at each request."""
    return [[one.number for one in plan.decide(each)] for each in asked]


def hits(plan: FaultPlan, asked: list[Asked]) -> list[int]:
    """Which requests meet a fault, from 1."""
    return [number for number, numbers in enumerate(fired(plan, asked), 1) if numbers]


# -- the file ----------------------------------------------------------------------------------


def test_the_example_shows_every_kind() -> None:
    script = FaultScript.load(EXAMPLE)
    assert {rule.fault for rule in script.rule} == set(KINDS)
    script.check_routes({"batch", "single", "list", "get"})


def test_an_empty_script_is_one() -> None:
    assert FaultScript.parse("").rule == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed = 'x'", "script: seed: Input should be a valid integer"),
        ("sead = 1", "script: sead: is unknown; the keys are seed, rule"),
        ("rule = 5", "script: rule: Input should be a valid list"),
        ("[[rule]]", "script: rule 1: fault: is none of refuse, throttle, challenge, delay, drop"),
        ("[[rule]]\nfault = 'explode'", "script: rule 1: fault: is none of refuse"),
        ("[[rule]]\nfault = 'refuse'", "script: rule 1: status: is missing"),
        (
            "[[rule]]\nfault = 'refuse'\nstatus = 200",
            "rule 1: status: Input should be greater than or equal to 300",
        ),
        (
            "[[rule]]\nfault = 'refuse'\nstatus = 600",
            "rule 1: status: Input should be less than or equal to 599",
        ),
        ("[[rule]]\nfault = 'refuse'\nstatus = '429'", "rule 1: status: Input should be a valid integer"),
        (
            "[[rule]]\nfault = 'refuse'\nstatus = 400\nheaders = {'a b' = 'c'}",
            "rule 1: headers.a b.[key]: String should match pattern",
        ),
        (
            "[[rule]]\nfault = 'refuse'\nstatus = 400\nheaders = {a = \"c\\r\\nd\"}",
            "rule 1: headers.a: String should match pattern",
        ),
        (
            "[[rule]]\nfault = 'throttle'\nretry_after = 5",
            "rule 1: retry_after: Input should be a valid string",
        ),
        (
            "[[rule]]\nfault = 'throttle'\ncommit = true",
            "rule 1: commit: is unknown; the keys are name, route, event_type, run, nth, every",
        ),
        (
            "[[rule]]\nfault = 'drop'\n[[rule]]\nfault = 'challenge'\nstatus = 400",
            "rule 2: status: Input should be 429 or 403",
        ),
        (
            "[[rule]]\nfault = 'delay'\nseconds = -1",
            "rule 1: seconds: Input should be greater than or equal to 0",
        ),
        ("[[rule]]\nfault = 'cut'\nat_bytes = 1.5", "rule 1: at_bytes: Input should be a valid integer"),
        ("[[rule]]\nfault = 'garbage'\nhex = 'f'", "rule 1: hex: String should match pattern"),
        (
            "[[rule]]\nfault = 'garbage'\ncontent = 'x'",
            "rule 1: content: Input should be 'text', 'empty', 'wrong' or",
        ),
        (
            "[[rule]]\nfault = 'twice'\nanswer = 'third'",
            "rule 1: answer: Input should be 'first' or 'second'",
        ),
        ("[[rule]]\nfault = 'drop'\nnth = 0", "rule 1: nth.0: Input should be greater than or equal to 1"),
        ("[[rule]]\nfault = 'drop'\nnth = []", "should have at least 1 item"),
        ("[[rule]]\nfault = 'drop'\nevery = 0", "rule 1: every: Input should be greater than or equal to 1"),
        ("[[rule]]\nfault = 'drop'\ntimes = true", "rule 1: times: Input should be a valid integer"),
        (
            "[[rule]]\nfault = 'drop'\nprobability = 1.1",
            "rule 1: probability: Input should be less than or equal to 1",
        ),
        ("[[rule]]\nfault = 'drop'\nroute = []", "should have at least 1 item"),
        (
            "[[rule]]\nfault = 'drop'\nevent_type = 'step_create'",
            "rule 1: event_type: 'step_create' is no event type; the types are attr_set, hook_created, hook_",
        ),
        ("fault = ", "script: Invalid value (at end of document)"),
    ],
)
def test_an_error_says_where_it_is_and_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        FaultScript.parse(text)
    assert told in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no.toml", "No such file"), (tmp_path, "directory")):
        with pytest.raises(ConfigurationError, match=why) as refused:
            FaultScript.load(path)
        assert str(refused.value).startswith(f"{path}: ")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        FaultScript.load(binary)


def test_routes_are_checked_against_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text("[[rule]]\nfault = 'drop'\n[[rule]]\nfault = 'drop'\nroute = ['list', 'batsh']\n")
    script = FaultScript.load(path)
    with pytest.raises(ConfigurationError) as refused:
        script.check_routes({"list", "batch"})
    assert str(refused.value) == f"{path}: rule 2: route: 'batsh' is none of batch, list"


# -- what matches ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({}, [1, 2, 3]),
        ({"route": "batch"}, [1]),
        ({"route": ["list", "single"]}, [2, 3]),
        ({"route": "health"}, [4]),
        ({"event_type": "wait_created"}, [1]),
        ({"event_type": ["run_created", "step_created"]}, [1, 2]),
        ({"event_type": "run_failed"}, []),
        ({"run": "wrun_a"}, [1, 3]),
        ({"run": "wrun_[b-z]"}, [2]),
        ({"run": "*"}, [1, 2, 3]),
        ({"run": "WRUN_A"}, []),
        ({"run": "wrun_a", "route": "list"}, [3]),
        ({"run": "wrun_b", "route": "list"}, []),
    ],
)
def test_rules_are_about_what_they_say(rule: dict[str, Any], asked: list[int]) -> None:
    assert hits(plan_of({"fault": "drop", **rule}), [BATCH, SINGLE, LIST, HEALTH]) == asked


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        ({"nth": 3}, [3]),
        ({"nth": [1, 4]}, [1, 4]),
        ({"every": 3}, [3, 6, 9]),
        ({"times": 2}, [1, 2]),
        ({"every": 2, "times": 2}, [2, 4]),
        ({"every": 2, "nth": [3, 4, 8]}, [4, 8]),
        ({"probability": 1.0, "times": 1}, [1]),
        ({"probability": 0.0}, []),
    ],
)
def test_counts_are_exact(rule: dict[str, Any], numbers: list[int]) -> None:
    assert hits(plan_of({"fault": "drop", **rule}), [LIST] * 10) == numbers


@given(REQUESTS, st.integers(1, 5))
def test_only_matching_requests_are_counted(asked: list[Asked], nth: int) -> None:
    found = hits(plan_of({"fault": "drop", "route": "batch", "nth": nth}), asked)
    batches = [number for number, each in enumerate(asked, 1) if each is BATCH]
    assert found == batches[nth - 1 : nth]


# -- chance ------------------------------------------------------------------------------------


@given(st.integers(), st.floats(0, 1), REQUESTS)
def test_the_same_seed_and_requests_give_the_same_faults(
    seed: int, chance: float, asked: list[Asked]
) -> None:
    rules: list[dict[str, Any]] = [
        {"fault": "delay", "seconds": 0, "probability": chance},
        {"fault": "drop", "route": "batch", "probability": chance, "times": 3},
    ]
    assert fired(plan_of(*rules, seed=seed), asked) == fired(plan_of(*rules, seed=seed), asked)


@given(st.integers(), REQUESTS)
def test_a_rule_behind_changes_nothing_for_those_before(seed: int, asked: list[Asked]) -> None:
    rules: list[dict[str, Any]] = [
        {"fault": "throttle", "probability": 0.3},
        {"fault": "drop", "every": 2, "probability": 0.5, "times": 4},
    ]
    added: dict[str, Any] = {"fault": "challenge", "probability": 0.9}
    alone = fired(plan_of(*rules, seed=seed), asked)
    joined = fired(plan_of(*rules, added, seed=seed), asked)
    assert [[number for number in numbers if number != 3] for numbers in joined] == alone


@given(st.integers(), st.integers(1, 100), st.integers(1, 10_000))
def test_a_chance_is_in_its_range(seed: int, number: int, matched: int) -> None:
    assert 0 <= draw_chance(seed, number, matched) < 1


def test_chances_come_as_often_as_they_say() -> None:
    for seed in range(3):
        for chance in (0.1, 0.5, 0.9):
            count = len(hits(plan_of({"fault": "drop", "probability": chance}, seed=seed), [LIST] * 4000))
            assert abs(count / 4000 - chance) < 0.03


def test_seeds_and_rules_draw_differently() -> None:
    rule: dict[str, Any] = {"fault": "delay", "seconds": 0, "probability": 0.5}
    first, second = (hits(plan_of(rule, seed=seed), [LIST] * 50) for seed in (1, 2))
    assert first != second
    both = fired(plan_of(rule, rule, seed=1), [LIST] * 50)
    assert any(numbers == [1] for numbers in both)
    assert any(numbers == [2] for numbers in both)


def test_chances_are_the_same_in_another_process() -> None:
    script = "from eventclient.devserver.fault_plan import draw_chance as draw\n"
    script += "print([draw(7, 2, number) for number in range(20)])"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str([draw_chance(7, 2, number) for number in range(20)])


# -- several rules, and the report -------------------------------------------------------------


def test_delays_add_up_and_one_other_fault_decides() -> None:
    plan = plan_of(
        {"fault": "delay", "seconds": 1},
        {"fault": "drop", "name": "lost"},
        {"fault": "delay", "seconds": 1},
        {"fault": "throttle", "times": 1},
    )
    assert fired(plan, [LIST, LIST]) == [[1, 2], [1, 2]]
    tallies = [(rule["matched"], rule["injected"], rule["overtaken"]) for rule in plan.report()["rules"]]
    assert tallies == [(2, 2, 0), (2, 2, 0), (2, 0, 2), (2, 0, 1)]


def test_the_report_tells_what_was_injected() -> None:
    plan = plan_of({"fault": "drop", "commit": True, "name": "lost", "route": "batch"}, seed=9)
    plan.decide(BATCH)
    plan.decide(LIST)
    assert plan.report() == {
        "seed": 9,
        "injected": 1,
        "rules": [{"rule": 1, "name": "lost", "fault": "drop", "matched": 1, "injected": 1, "overtaken": 0}],
        "recent": [
            {
                "rule": 1,
                "fault": "drop after commit (rule 1 lost)",
                "request": BATCH.request,
                "route": "batch",
                "run_id": "wrun_a",
                "event_types": ("step_created", "wait_created"),
            }
        ],
    }


def test_the_report_keeps_the_last_injections() -> None:
    plan = plan_of({"fault": "drop"})
    for number in range(MAX_RECENT + 5):
        plan.decide(Asked(f"GET /api/{number}", "list"))
    report = plan.report()
    assert report["injected"] == MAX_RECENT + 5
    assert [each["request"] for each in report["recent"]][:: MAX_RECENT - 1] == [
        "GET /api/5",
        f"GET /api/{MAX_RECENT + 4}",
    ]
