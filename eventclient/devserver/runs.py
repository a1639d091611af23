"""Events on a run and its attributes."""

from __future__ import annotations

from typing import Any, Final

from eventclient.model.entities import Run
from eventclient.model.lifecycle import REPEAT, RESILIENT_START, Refusal, RunState, apply
from eventclient.wire.replies import Refused, Written

from .admission import CODE_INVALID_EVENT, Candidate
from .attributes import InvalidAttributesError, merge_attributes
from .draft import Draft
from .ruling import Repeated, Ruling, refuse

MAX_EVENTS: Final = 25_000
"""The most events of a run, as reported with every run. Source: `@workflow/world-local` 5.0.0-beta.46."""


def rule_run(draft: Draft, candidate: Candidate) -> Ruling:
    """Create, start or end a run."""
    if candidate.event_type == "run_created":
        return _created(draft, candidate)
    answer = apply(candidate.kind, draft.run_state)
    if isinstance(answer, Refusal):
        return refuse(answer, draft, candidate)
    if answer is REPEAT:
        return Repeated(draft.claimed_slot(candidate), draft.run, MAX_EVENTS)
    if candidate.event_type == "run_started":
        return _started(draft, candidate)
    event = draft.append(candidate)
    run = draft.end_run(_change(draft, candidate, _end_of(candidate, RunState(str(answer)))))
    return Written(event, run=run, max_events=MAX_EVENTS)


def rule_attributes(draft: Draft, candidate: Candidate) -> Ruling:
    """Merge attributes into a run."""
    answer = apply(candidate.kind, draft.run_state, key=draft.key_state(candidate))
    if isinstance(answer, Refusal):
        return refuse(answer, draft, candidate)
    if answer is REPEAT:
        return Repeated(draft.claimed_slot(candidate), draft.run, MAX_EVENTS)
    current = draft.run.attributes if draft.run is not None else {}
    changes = [(change["key"], change["value"]) for change in candidate.data["changes"]]
    allow_reserved = candidate.data.get("allowReservedAttributes", False)
    try:
        attributes = merge_attributes(current, changes, allow_reserved=allow_reserved)
    except InvalidAttributesError as error:
        return Refused(400, CODE_INVALID_EVENT, f"attr_set: {error}")
    event = draft.append(candidate)
    run = draft.put_run(_change(draft, candidate, {"attributes": attributes}))
    return Written(event, run=run, max_events=MAX_EVENTS)


def _created(draft: Draft, candidate: Candidate) -> Written | Refused:
    run = new_run(draft.run_id, candidate)
    if isinstance(run, Refused):
        return run
    answer = apply(candidate.kind, draft.run_state)
    if isinstance(answer, Refusal):
        return refuse(answer, draft, candidate)
    row = draft.append(candidate, event_type="run_created")
    return Written(row, run=draft.put_run(run), max_events=MAX_EVENTS)


def new_run(run_id: str, candidate: Candidate) -> Run | Refused:
    """The run that `candidate` asks for, pending; its attributes may be against the rules."""
    data = candidate.data
    allow_reserved = data.get("allowReservedAttributes", False)
    try:
        attributes = merge_attributes(
            {}, tuple(data.get("attributes", {}).items()), allow_reserved=allow_reserved
        )
    except InvalidAttributesError as error:
        return Refused(400, CODE_INVALID_EVENT, f"{candidate.event_type}: {error}")
    return Run(
        run_id=run_id,
        status="pending",
        deployment_id=data["deploymentId"],
        workflow_name=data["workflowName"],
        created_at=candidate.at,
        updated_at=candidate.at,
        spec_version=candidate.spec_version,
        attributes=attributes,
        execution_context=data.get("executionContext"),
        input=data.get("input"),
        encryption_public_key=data.get("encryptionPublicKey"),
    )


def _started(draft: Draft, candidate: Candidate) -> Ruling:
    if draft.run is None and candidate.kind == RESILIENT_START:
        # The start overtook the creation: the log gets both, in the order in which they have to be read.
        created = _created(draft, candidate)
        if isinstance(created, Refused):
            return created
    event = draft.append(candidate, data={})
    run = draft.put_run(_change(draft, candidate, {"status": "running", "started_at": candidate.at}))
    return Written(event, run=run, max_events=MAX_EVENTS)


def _end_of(candidate: Candidate, state: RunState) -> dict[str, Any]:
    end: dict[str, Any] = {"status": state.value, "completed_at": candidate.at}
    if state is RunState.COMPLETED:
        end["output"] = candidate.data.get("output")
    elif state is RunState.FAILED:
        end["error"] = candidate.data.get("error")
        end["error_code"] = candidate.data.get("errorCode")
    return end


def _change(draft: Draft, candidate: Candidate, update: dict[str, Any]) -> Run:
    if draft.run is None:
        raise TypeError("there is no run to change")
    return draft.run.model_copy(update={"updated_at": candidate.at, **update})
