"""Events on a hook."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from eventclient.model.entities import Hook, Run
from eventclient.model.lifecycle import REPEAT, HookState, Refusal, apply
from eventclient.wire.replies import Refused, Written

from .admission import CODE_INVALID_EVENT, Candidate
from .draft import Draft
from .ruling import Repeated, Ruling, refuse

MAX_TOKEN_RETENTION: Final = timedelta(days=30)
"""How far ahead a token may be kept. Source: `@workflow/world-local` 5.0.0-beta.46."""
LOCAL: Final = "local"
"""Owner, project and environment of every hook here: the protocol requires them, a local server has none."""


def rule_hook(draft: Draft, candidate: Candidate) -> Ruling:
    """Create a hook, deliver to it, or dispose of it."""
    retention = candidate.data.get("tokenRetentionUntil")
    if retention is not None and retention - draft.now > MAX_TOKEN_RETENTION:
        days = MAX_TOKEN_RETENTION.days
        return Refused(400, CODE_INVALID_EVENT, f"hook_created: a token is kept for at most {days} days")
    token = candidate.data["token"] if candidate.event_type == "hook_created" else None
    holder = draft.holder(token) if token is not None else None
    state = HookState.ABSENT
    if candidate.subject in draft.hooks:
        state = HookState.LIVE
    elif holder is not None:
        state = HookState.CONTESTED
    answer = apply(candidate.kind, draft.run_state, state, draft.key_state(candidate))
    if isinstance(answer, Refusal):
        return refuse(answer, draft, candidate)
    if answer is REPEAT:
        return Repeated(draft.claimed_slot(candidate))
    if candidate.event_type == "hook_created":
        return _contested(draft, candidate, holder) if holder is not None else _created(draft, candidate)
    event = draft.append(candidate)
    if candidate.event_type == "hook_disposed":
        draft.drop_hook(candidate.subject)
    return Written(event)


def _contested(draft: Draft, candidate: Candidate, holder: Hook) -> Written:
    data = {"token": holder.token, "conflictingRunId": holder.run_id}
    return Written(draft.append(candidate, event_type="hook_conflict", data=data))


def resume_context(run: Run) -> dict[str, Any]:
    """What a hook tells of its run, so that it can be resumed without reading the run: what is fixed when
    the hook is created, and no payload.

    Source: `@workflow/world` 5.0.0-beta.37. A value of another type than it names is left out, for its
    reader would refuse the hook.
    """
    told = run.execution_context if isinstance(run.execution_context, Mapping) else {}
    core_version = told.get("workflowCoreVersion")
    carrier = told.get("traceCarrier")
    input_version = told.get("hookResumeInputVersion")
    context = {
        "deploymentId": run.deployment_id,
        "workflowName": run.workflow_name,
        "runSpecVersion": run.spec_version,
        "workflowCoreVersion": core_version if isinstance(core_version, str) else None,
        "traceCarrier": carrier if _is_text_map(carrier) else None,
        "encryptionPublicKey": run.encryption_public_key,
        "hookResumeInputVersion": input_version if type(input_version) in (int, float) else None,
    }
    return {key: value for key, value in context.items() if value is not None}


def _is_text_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(part, str) for pair in value.items() for part in pair
    )


def _created(draft: Draft, candidate: Candidate) -> Ruling:
    data = candidate.data
    hook = Hook(
        run_id=draft.run_id,
        hook_id=candidate.subject,
        token=data["token"],
        owner_id=LOCAL,
        project_id=LOCAL,
        environment=LOCAL,
        created_at=candidate.at,
        metadata=data.get("metadata"),
        spec_version=candidate.spec_version,
        is_webhook=data.get("isWebhook", False),
        is_system=data.get("isSystem", False),
        token_retention_until=data.get("tokenRetentionUntil"),
        resume_context=resume_context(draft.run) if draft.run is not None else None,
    )
    event = draft.append(candidate)
    return Written(event, hook=draft.put_hook(hook))
