"""The tables of the life cycle: total, and as the reference behaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.model.event_specs import EVENT_SPECS, Entity
from eventclient.model.lifecycle import (
    ENDED_TRANSITIONS,
    KEY_TRANSITIONS,
    LAZY_START,
    PART_TRANSITIONS,
    REPEAT,
    RESILIENT_START,
    RUN_TRANSITIONS,
    Answer,
    HookState,
    KeyState,
    PartState,
    Refusal,
    RunState,
    StepState,
    WaitState,
    apply,
    is_releasable,
    is_retained,
    kind_of,
    run_state,
    step_state,
    wait_state,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
STATES: dict[Entity, type[PartState]] = {
    Entity.STEP: StepState,
    Entity.WAIT: WaitState,
    Entity.HOOK: HookState,
}
ENDED = [state for state in RunState if state.ended]


def entity_of(kind: str) -> Entity:
    return EVENT_SPECS[kind.split(" ")[0]].entity


# -- totality ----------------------------------------------------------------------------------


def test_every_event_type_has_its_row_in_the_right_tables() -> None:
    on_run = {name for name, facts in EVENT_SPECS.items() if facts.entity in (Entity.RUN, Entity.ATTRIBUTES)}
    assert set(RUN_TRANSITIONS) == on_run | {RESILIENT_START}
    assert set(PART_TRANSITIONS) == set(EVENT_SPECS) - on_run | {LAZY_START}
    assert set(ENDED_TRANSITIONS) == set(PART_TRANSITIONS)
    assert set(KEY_TRANSITIONS) <= set(EVENT_SPECS)


@pytest.mark.parametrize("kind", RUN_TRANSITIONS)
def test_every_row_about_a_run_has_every_state(kind: str) -> None:
    assert set(RUN_TRANSITIONS[kind]) == set(RunState)


@pytest.mark.parametrize("kind", PART_TRANSITIONS)
def test_every_row_about_a_part_has_every_state_of_its_entity(kind: str) -> None:
    states = STATES[entity_of(kind)]
    for table in (PART_TRANSITIONS, ENDED_TRANSITIONS):
        assert set(table[kind]) == set(states)
        for answer in table[kind].values():
            assert isinstance(answer, (states, Refusal))


@pytest.mark.parametrize("kind", KEY_TRANSITIONS)
def test_every_row_about_a_key_has_every_state(kind: str) -> None:
    assert set(KEY_TRANSITIONS[kind]) == set(KeyState)
    assert KEY_TRANSITIONS[kind][KeyState.NEW] is None


@pytest.mark.parametrize("run", RunState)
def test_apply_answers_in_every_situation(run: RunState) -> None:
    for kind in RUN_TRANSITIONS:
        assert isinstance(apply(kind, run), (RunState, Refusal)) or apply(kind, run) is REPEAT
    for kind in PART_TRANSITIONS:
        for part in STATES[entity_of(kind)]:
            for key in KeyState:
                answer = apply(kind, run, part, key)
                assert isinstance(answer, (type(part), Refusal)) or answer is REPEAT


def test_apply_does_not_answer_what_no_table_knows() -> None:
    for kind, part in (("noop", None), ("step_created", None), ("step_created", WaitState.WAITING)):
        with pytest.raises(KeyError):
            apply(kind, RunState.RUNNING, part)


# -- rows --------------------------------------------------------------------------------------


def test_nothing_but_a_creation_works_without_a_run() -> None:
    assert apply("run_created", RunState.ABSENT) is RunState.PENDING
    assert apply(RESILIENT_START, RunState.ABSENT) is RunState.RUNNING
    for kind in set(RUN_TRANSITIONS) - {"run_created", RESILIENT_START}:
        assert apply(kind, RunState.ABSENT, key=KeyState.SAME) is Refusal.NOT_FOUND
    for kind in PART_TRANSITIONS:
        for part in STATES[entity_of(kind)]:
            assert apply(kind, RunState.ABSENT, part, KeyState.SAME) is Refusal.NOT_FOUND


@pytest.mark.parametrize(
    ("kind", "pending", "running"),
    [
        ("run_created", Refusal.CONFLICT, Refusal.CONFLICT),
        ("run_started", RunState.RUNNING, REPEAT),
        (RESILIENT_START, RunState.RUNNING, REPEAT),
        ("run_completed", RunState.COMPLETED, RunState.COMPLETED),
        ("run_failed", RunState.FAILED, RunState.FAILED),
        ("run_cancelled", RunState.CANCELLED, RunState.CANCELLED),
        ("attr_set", RunState.PENDING, RunState.RUNNING),
    ],
)
def test_events_on_a_run(kind: str, pending: Answer, running: Answer) -> None:
    assert apply(kind, RunState.PENDING) is pending
    assert apply(kind, RunState.RUNNING) is running
    refusal = Refusal.ENDED if kind in ("run_started", RESILIENT_START) else Refusal.CONFLICT
    for state in ENDED:
        assert apply(kind, state) is refusal


CONFLICT, NOT_FOUND = Refusal.CONFLICT, Refusal.NOT_FOUND


@pytest.mark.parametrize(
    ("kind", "absent", "pending", "delayed", "running", "ended"),
    [
        ("step_created", StepState.PENDING, CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        (
            "step_started",
            NOT_FOUND,
            StepState.RUNNING,
            Refusal.TOO_EARLY,
            StepState.RUNNING,
            CONFLICT,
        ),
        (LAZY_START, StepState.RUNNING, CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        ("step_completed", NOT_FOUND, *[StepState.COMPLETED] * 3, CONFLICT),
        ("step_failed", NOT_FOUND, *[StepState.FAILED] * 3, CONFLICT),
        ("step_retrying", NOT_FOUND, *[StepState.PENDING] * 3, CONFLICT),
    ],
)
def test_events_on_a_step(
    kind: str, absent: Answer, pending: Answer, delayed: Answer, running: Answer, ended: Answer
) -> None:
    expected = {
        StepState.ABSENT: absent,
        StepState.PENDING: pending,
        StepState.DELAYED: delayed,
        StepState.RUNNING: running,
        StepState.COMPLETED: ended,
        StepState.FAILED: ended,
        StepState.CANCELLED: ended,
    }
    for run in (RunState.PENDING, RunState.RUNNING):
        assert {state: apply(kind, run, state) for state in StepState} == expected


@pytest.mark.parametrize("run", ENDED)
def test_events_on_a_step_of_an_ended_run(run: RunState) -> None:
    over = Refusal.ENDED
    for kind, absent, pending, running, ended in (
        ("step_created", CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        (LAZY_START, CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        ("step_started", NOT_FOUND, over, over, CONFLICT),
        ("step_failed", NOT_FOUND, over, StepState.FAILED, CONFLICT),
        ("step_completed", NOT_FOUND, StepState.COMPLETED, StepState.COMPLETED, CONFLICT),
        ("step_retrying", NOT_FOUND, StepState.PENDING, StepState.PENDING, CONFLICT),
    ):
        assert apply(kind, run, StepState.ABSENT) is absent
        assert apply(kind, run, StepState.PENDING) is pending
        assert apply(kind, run, StepState.DELAYED) is pending
        assert apply(kind, run, StepState.RUNNING) is running
        for state in (StepState.COMPLETED, StepState.FAILED, StepState.CANCELLED):
            assert apply(kind, run, state) is ended


def test_events_on_a_wait() -> None:
    created = [apply("wait_created", RunState.RUNNING, state) for state in WaitState]
    assert created == [WaitState.WAITING, CONFLICT, CONFLICT]
    completed = [apply("wait_completed", RunState.RUNNING, state) for state in WaitState]
    assert completed == [NOT_FOUND, WaitState.COMPLETED, CONFLICT]
    for run in ENDED:
        for state in WaitState:
            assert apply("wait_created", run, state) is CONFLICT
            assert apply("wait_completed", run, state) is NOT_FOUND


@pytest.mark.parametrize(
    ("kind", "open_run", "ended_run"),
    [
        ("hook_created", [HookState.LIVE, HookState.CONTESTED, CONFLICT], [CONFLICT] * 3),
        ("hook_received", [NOT_FOUND, NOT_FOUND, HookState.LIVE], [NOT_FOUND, NOT_FOUND, Refusal.ENDED]),
        ("hook_disposed", [NOT_FOUND, NOT_FOUND, HookState.ABSENT], [NOT_FOUND, NOT_FOUND, HookState.ABSENT]),
    ],
)
def test_events_on_a_hook(kind: str, open_run: list[Answer], ended_run: list[Answer]) -> None:
    for run in (RunState.PENDING, RunState.RUNNING):
        assert [apply(kind, run, state) for state in HookState] == open_run
    for run in ENDED:
        assert [apply(kind, run, state) for state in HookState] == ended_run


def test_a_used_key_comes_before_everything_but_the_run() -> None:
    for run in set(RunState) - {RunState.ABSENT}:
        assert apply("attr_set", run, key=KeyState.SAME) is REPEAT
        assert apply("attr_set", run, key=KeyState.OTHER) is REPEAT
        for hook in HookState:
            assert apply("hook_received", run, hook, KeyState.SAME) is REPEAT
            assert apply("hook_received", run, hook, KeyState.OTHER) is CONFLICT


@pytest.mark.parametrize(
    ("event_type", "data", "kind"),
    [
        ("run_started", {}, "run_started"),
        ("run_started", {"deploymentId": "d", "workflowName": "w", "input": b"i"}, RESILIENT_START),
        ("run_started", {"deploymentId": "d", "workflowName": "w"}, "run_started"),
        ("run_started", {"deploymentId": "d", "input": b"i"}, "run_started"),
        ("run_started", {"workflowName": "w", "input": b"i"}, "run_started"),
        ("run_created", {"deploymentId": "d", "workflowName": "w", "input": b"i"}, "run_created"),
        ("step_started", {"stepName": "s"}, "step_started"),
        ("step_started", {"input": b"i"}, "step_started"),
        ("step_started", {"stepName": "s", "input": b"i"}, LAZY_START),
        ("step_started", {"stepName": "s", "input": b""}, "step_started"),
        ("step_created", {"stepName": "s", "input": b"i"}, "step_created"),
    ],
)
def test_what_an_event_carries_says_its_kind(event_type: str, data: dict[str, Any], kind: str) -> None:
    assert kind_of(event_type, data) == kind


# -- states of entities ------------------------------------------------------------------------


def a_step(status: str, retry_after: datetime | None = None) -> Step:
    times = {"createdAt": NOW, "updatedAt": NOW, "retryAfter": retry_after}
    return Step.read({"runId": "r", "stepId": "s", "stepName": "n", "status": status, "attempt": 0, **times})


def a_hook(until: datetime | None = None) -> Hook:
    owner = {"ownerId": "o", "projectId": "p", "environment": "e"}
    identity = {"runId": "r", "hookId": "h", "token": "t", "createdAt": NOW}
    return Hook.read({**identity, **owner, "tokenRetentionUntil": until})


def test_the_state_of_a_run() -> None:
    assert run_state(None) is RunState.ABSENT
    for state in set(RunState) - {RunState.ABSENT}:
        identity = {"runId": "r", "deploymentId": "d", "workflowName": "w"}
        times = {"createdAt": NOW, "updatedAt": NOW, "completedAt": NOW}
        assert run_state(Run.read({**identity, **times, "status": state.value})) is state


def test_the_state_of_a_step() -> None:
    assert step_state(None, NOW) is StepState.ABSENT
    for state in set(StepState) - {StepState.ABSENT, StepState.DELAYED}:
        assert step_state(a_step(state.value), NOW) is state
    assert step_state(a_step("pending", NOW + SECOND), NOW) is StepState.DELAYED
    assert step_state(a_step("pending", NOW), NOW) is StepState.PENDING
    assert step_state(a_step("running", NOW + SECOND), NOW) is StepState.RUNNING


def test_the_state_of_a_wait() -> None:
    assert wait_state(None) is WaitState.ABSENT
    for state in (WaitState.WAITING, WaitState.COMPLETED):
        times = {"createdAt": NOW, "updatedAt": NOW}
        assert wait_state(Wait.read({"runId": "r", "waitId": "w", "status": state.value, **times})) is state


def test_a_token_is_kept_for_as_long_as_it_was_asked_for() -> None:
    assert not is_retained(a_hook(), NOW)
    assert not is_retained(a_hook(NOW), NOW)
    assert is_retained(a_hook(NOW + SECOND), NOW)


def test_a_token_is_taken_over_when_nobody_needs_it() -> None:
    kept, plain = a_hook(NOW + SECOND), a_hook()
    assert is_releasable(kept, RunState.ABSENT, NOW)
    for run in (RunState.PENDING, RunState.RUNNING):
        assert not is_releasable(plain, run, NOW)
    for run in ENDED:
        assert is_releasable(plain, run, NOW)
        assert not is_releasable(kept, run, NOW)
        assert is_releasable(kept, run, NOW + SECOND)
