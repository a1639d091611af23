"""Events on a step."""

from __future__ import annotations

from typing import Any

from eventclient.model.entities import Step
from eventclient.model.lifecycle import LAZY_START, REPEAT, Refusal, StepState, apply, step_state
from eventclient.wire.replies import Written

from .admission import Candidate
from .draft import Draft
from .ruling import Ruling, refuse


def rule_step(draft: Draft, candidate: Candidate) -> Ruling:
    """Create, start, retry or end a step."""
    step = draft.steps.get(candidate.subject)
    answer = apply(candidate.kind, draft.run_state, step_state(step, draft.now))
    if isinstance(answer, Refusal):
        too_early = answer is Refusal.TOO_EARLY and step is not None
        return refuse(answer, draft, candidate, retry_after=step.retry_after if too_early and step else None)
    if candidate.event_type == "step_created":
        return Written(draft.append(candidate), step=draft.put_step(_created(draft, candidate)))
    if candidate.kind == LAZY_START:
        return _lazily_started(draft, candidate)
    if step is None or answer is REPEAT:
        raise TypeError(f"{candidate.event_type} cannot leave the state it was let through for")
    event = draft.append(candidate)
    update = _UPDATES[StepState(str(answer))](step, candidate)
    step = step.model_copy(update={"status": str(answer), "updated_at": candidate.at, **update})
    return Written(event, step=draft.put_step(step))


def _created(draft: Draft, candidate: Candidate) -> Step:
    return Step(
        run_id=draft.run_id,
        step_id=candidate.subject,
        step_name=candidate.data["stepName"],
        status="pending",
        attempt=0,
        created_at=candidate.at,
        updated_at=candidate.at,
        input=candidate.data.get("input"),
        spec_version=candidate.spec_version,
    )


def _lazily_started(draft: Draft, candidate: Candidate) -> Written:
    """A start that creates its step leaves two rows, as if they had been posted apart; the input rides
    on the first."""
    data = dict(candidate.data)
    created = {"stepName": data["stepName"], "input": data.pop("input")}
    draft.append(candidate, event_type="step_created", data=created)
    event = draft.append(candidate, data=data)
    step = _created(draft, candidate)
    step = step.model_copy(update={"status": "running", **_start(step, candidate)})
    return Written(event, step=draft.put_step(step), step_created=True)


def _start(step: Step, candidate: Candidate) -> dict[str, Any]:
    return {
        "attempt": step.attempt + 1,
        "started_at": step.started_at or candidate.at,
        "retry_after": None,
    }


def _complete(_step: Step, candidate: Candidate) -> dict[str, Any]:
    # An error of an earlier attempt stays on a step that completes later.
    return {"output": candidate.data.get("result"), "completed_at": candidate.at}


def _fail(_step: Step, candidate: Candidate) -> dict[str, Any]:
    return {"error": candidate.data.get("error"), "completed_at": candidate.at}


def _retry(_step: Step, candidate: Candidate) -> dict[str, Any]:
    return {"error": candidate.data.get("error"), "retry_after": candidate.data.get("retryAfter")}


_UPDATES = {
    StepState.RUNNING: _start,
    StepState.COMPLETED: _complete,
    StepState.FAILED: _fail,
    StepState.PENDING: _retry,
}
