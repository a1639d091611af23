"""What a server says one event met: entities are built once, when they are asked for."""

from __future__ import annotations

import pytest

from eventclient.model.entities import Run, Step, StoredEvent, Wait
from eventclient.model.results import Log, Result
from tests.client.answers import success_map
from tests.client.samples import event


def test_entities_are_built_from_the_answer_and_kept() -> None:
    told = success_map(event("step_started"))
    result = Result(200, body=told)
    assert result.stored == StoredEvent.read(told["event"])
    assert result.step == Step.read(told["step"])
    assert result.stored is result.stored
    assert result.step is result.step
    assert (result.run, result.hook, result.wait) == (None, None, None)


def test_built_entities_are_taken_as_they_are() -> None:
    told = success_map(event("wait_created"))
    run, wait = Run.read(success_map(event("run_completed"))["run"]), Wait.read(told["wait"])
    result = Result(200, body={"run": run, "wait": wait, "hook": None})
    assert result.run is run
    assert result.wait is wait
    assert result.hook is None


@pytest.mark.parametrize("name", ["stored", "run", "step", "hook", "wait"])
def test_a_refusal_brings_no_entities(name: str) -> None:
    assert getattr(Result(409, "conflict", "m"), name) is None


def test_what_a_result_may_say_beside() -> None:
    log = Log((), "c", False)
    result = Result(200, None, None, {}, step_created=True, max_events=5, log=log)
    assert (result.step_created, result.max_events, result.log) == (True, 5, log)
    bare = Result(None)
    assert (bare.status, bare.code, bare.message) == (None, None, None)
    assert (bare.step_created, bare.max_events, bare.log) == (False, None, None)
