"""What an evaluation says about one event, and how a refusal of the life cycle reads over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.model.lifecycle import Refusal, RunState
from eventclient.wire import spec
from eventclient.wire.replies import Refused, Written

from .admission import Candidate
from .draft import Draft

CODE_TOO_EARLY: Final = "too-early"
CODE_RUN_NOT_FOUND: Final = "run-not-found"


@dataclass(frozen=True, slots=True)
class Repeated:
    """Nothing was written: the event at `slot` did this before and is the answer; see `Written`."""

    slot: int
    run: Run | None = None
    max_events: int | None = None
    step: Step | None = None
    hook: Hook | None = None
    wait: Wait | None = None
    step_created: bool = False


Ruling = Written | Repeated | Refused

STATUSES: Final[Mapping[Refusal, int]] = {
    Refusal.CONFLICT: 409,
    Refusal.NOT_FOUND: 404,
    Refusal.ENDED: 410,
    Refusal.TOO_EARLY: 425,
}
_CODES: Final[Mapping[Refusal, str]] = {
    Refusal.CONFLICT: spec.CODE_CONFLICT,
    Refusal.ENDED: spec.CODE_RUN_EXPIRED,
    Refusal.TOO_EARLY: CODE_TOO_EARLY,
}


def no_run(run_id: str) -> Refused:
    """What everything that needs a run says when there is none."""
    return Refused(404, CODE_RUN_NOT_FOUND, f"there is no run {run_id}")


def refuse(
    refusal: Refusal, draft: Draft, candidate: Candidate, *, retry_after: datetime | None = None
) -> Refused:
    """The refusal of `candidate` in words; `retry_after` is when it may be taken."""
    missing_run = draft.run_state is RunState.ABSENT
    entity = "run" if missing_run else candidate.entity.value
    name = draft.run_id if entity == "run" else candidate.correlation_id
    reason = {
        Refusal.CONFLICT: f"{candidate.event_type}: {entity} {name} is not in a state this event can leave",
        Refusal.NOT_FOUND: f"{candidate.event_type}: there is no {entity} {name}",
        Refusal.ENDED: f"{candidate.event_type}: run {draft.run_id} has ended",
        Refusal.TOO_EARLY: f"{candidate.event_type}: {entity} {name} is to be retried later",
    }[refusal]
    code = _CODES.get(refusal, f"{entity}-not-found")
    wait_s = math.ceil((retry_after - draft.now).total_seconds()) if retry_after is not None else None
    return Refused(STATUSES[refusal], code, reason, retry_after_s=wait_s)
