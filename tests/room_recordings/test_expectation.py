"""Which refusals a recording foretells."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.model.parsing import parse_event
from eventclient.recordings.expectation import REFUSED_AFTER_END, expected_refusals

DATA: dict[str, dict[str, Any]] = {
    "run_created": {"deploymentId": "d", "workflowName": "w"},
    "step_created": {"stepName": "s"},
    "wait_created": {"resumeAt": "2026-11-30T02:08:43.611Z"},
    "hook_created": {"token": "t"},
    "attr_set": {"changes": [], "writer": {"type": "workflow"}},
    "lazy": {"stepName": "s", "input": b"x"},
}


def event(told: str) -> Event:
    """An event from its type and, behind a blank, its correlation id."""
    kind, _, key = told.partition(" ")
    mapping: dict[str, Any] = {"eventType": {"lazy": "step_started"}.get(kind, kind)}
    if kind in DATA:
        mapping["eventData"] = DATA[kind]
    if key:
        mapping["correlationId"] = key
    return parse_event(mapping)


def expected(*told: str) -> list[set[int]]:
    return [set(statuses) for statuses in expected_refusals(map(event, told))]


START = ("run_created", "run_started")


def last(*told: str) -> set[int]:
    return expected(*START, *told)[-1]


def test_an_ordinary_run_foretells_none() -> None:
    log = [
        *START,
        *("step_created a", "step_started a", "step_retrying a", "step_started a", "step_completed a"),
        *("wait_created w", "wait_completed w"),
        *("hook_created h", "hook_received h", "hook_received h", "hook_disposed h"),
        *("attr_set x", "attr_set", "attr_set", "lazy b", "step_failed b", "run_completed"),
    ]
    assert not any(expected(*log))


@pytest.mark.parametrize(
    ("log", "statuses"),
    [
        (["run_created"], {409}),
        (["wait_created w", "wait_created w"], {409}),
        (["wait_created w", "wait_completed w", "wait_created w"], {409}),
        (["wait_created w", "wait_completed w", "wait_completed w"], {409}),
        (["step_created a", "step_created a"], {409}),
        (["step_created a", "lazy a"], {409}),
        (["lazy a", "step_created a"], {409}),
        (["step_created a", "step_completed a", "step_failed a"], {409}),
        (["step_created a", "step_completed a", "step_started a"], {409}),
        (["hook_created h", "hook_created h"], {409}),
        (["hook_created h", "hook_disposed h", "hook_received h"], {404, 409}),
        (["attr_set x", "attr_set x"], {409}),
        (["run_completed", "run_completed"], {409}),
        (["run_failed", "run_cancelled"], {409}),
        (["run_cancelled", "run_created"], {409}),
        (["run_completed", "run_started"], {409, 410}),
        (["run_completed", "step_created a"], {409}),
        (["run_completed", "step_created a", "step_completed a"], {404, 409, 410}),
        (["step_created a", "run_completed", "step_started a"], {409, 410}),
        (["step_created a", "run_completed", "step_failed a"], {410}),
        (["step_created a", "step_started a", "run_completed", "step_failed a"], set()),
        (["step_created a", "run_completed", "step_completed a"], set()),
        (["step_created a", "run_completed", "step_retrying a"], set()),
        (["wait_created w", "run_completed", "wait_completed w"], {404, 409}),
        (["hook_created h", "run_completed", "hook_received h"], {404, 410}),
        (["hook_created h", "run_completed", "hook_disposed h"], {404, 409}),
    ],
)
def test_a_refusal_that_is_foretold(log: list[str], statuses: set[int]) -> None:
    assert last(*log) == statuses


def test_forty_creates_of_one_wait_foretell_thirty_nine_conflicts() -> None:
    assert expected(*START, *["wait_created w"] * 40)[2:] == [set(), *[{409}] * 39]


def test_a_foretold_refusal_changes_nothing() -> None:
    assert last("run_completed", "run_failed", "step_created a", "step_created a") == {409} | {404, 410}


def test_every_type_is_named_or_a_steps_own_end() -> None:
    assert set(EVENT_SPECS) - set(REFUSED_AFTER_END) == {"step_completed", "step_failed", "step_retrying"}
