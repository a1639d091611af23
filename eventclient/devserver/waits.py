"""Events on a wait."""

from __future__ import annotations

from eventclient.model.entities import Wait
from eventclient.model.lifecycle import Refusal, apply, wait_state
from eventclient.wire.replies import Written

from .admission import Candidate
from .draft import Draft
from .ruling import Ruling, refuse


def rule_wait(draft: Draft, candidate: Candidate) -> Ruling:
    """Create or complete a wait."""
    wait = draft.waits.get(candidate.subject)
    answer = apply(candidate.kind, draft.run_state, wait_state(wait))
    if isinstance(answer, Refusal):
        return refuse(answer, draft, candidate)
    if wait is None:
        wait = Wait(
            wait_id=f"{draft.run_id}-{candidate.subject}",
            run_id=draft.run_id,
            status="waiting",
            created_at=candidate.at,
            updated_at=candidate.at,
            resume_at=candidate.data["resumeAt"],
            spec_version=candidate.spec_version,
        )
    else:
        wait = wait.model_copy(
            update={"status": "completed", "updated_at": candidate.at, "completed_at": candidate.at}
        )
    event = draft.append(candidate)
    return Written(event, wait=draft.put_wait(candidate.subject, wait))
