"""Runs from before event sourcing: they are changed directly, and their log holds no more than deliveries.

Source: `@workflow/world-local` 5.0.0-beta.46, and `@workflow/world-vercel` 5.0.0-beta.50 for its requests.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from eventclient.clock import Clock
from eventclient.model.entities import Run
from eventclient.model.event_data import AttributeChange
from eventclient.model.ids import RUN_PREFIX, encode_ulid
from eventclient.model.lifecycle import KeyState, Refusal, RunState, run_state
from eventclient.wire import spec
from eventclient.wire.codec import encode_value
from eventclient.wire.items import UnencodableError, epoch_ms
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused, Written

from .admission import CODE_INVALID_EVENT, Candidate, admit
from .attributes import InvalidAttributesError, merge_attributes
from .draft import Draft
from .notices import Notices
from .retention import is_expired, retire
from .ruling import Repeated, Ruling, no_run, refuse
from .runs import new_run
from .state import Changes, State, Wanted
from .store import Decision, Store, T

CODE_UNSUPPORTED_VERSION: Final = "unsupported-spec-version"
_CHANGES: Final = TypeAdapter(list[AttributeChange])
_DELIVERIES: Final = frozenset({"hook_received", "wait_completed"})
"""What the log of such a run takes as it comes: hooks and waits of its kind are kept elsewhere."""


def is_legacy(run: Run) -> bool:
    """Whether `run` is from before event sourcing."""
    return (run.spec_version or spec.LEGACY_SPEC_VERSION) <= spec.LEGACY_SPEC_VERSION


def rule_version(draft: Draft, candidate: Candidate) -> Ruling | None:
    """What the spec version of the run alone says about an event; None leaves it to the life cycle.

    A ``run_cancelled`` is left to it: whoever posts that as an event is answered with one.
    """
    run = draft.run
    if run is None or candidate.event_type in ("run_created", "run_cancelled"):
        return None
    if (run.spec_version or 0) > spec.MAX_SPEC_VERSION:
        message = f"run {run.run_id} is of spec version {run.spec_version}, newer than this server"
        return Refused(400, CODE_UNSUPPORTED_VERSION, message)
    if not is_legacy(run):
        return None
    if candidate.event_type not in _DELIVERIES:
        message = f"{candidate.event_type} is not for runs from before event sourcing"
        return Refused(400, CODE_UNSUPPORTED_VERSION, message)
    key = draft.key_state(candidate)
    if key is KeyState.SAME:
        return Repeated(draft.claimed_slot(candidate))
    if key is KeyState.OTHER:
        return refuse(Refusal.CONFLICT, draft, candidate)
    if candidate.event_type == "hook_received" and draft.run_state.ended:
        return refuse(Refusal.ENDED, draft, candidate)
    return Written(draft.append(candidate))


def mint_run_id(now: datetime) -> str:
    """A new run id, for a caller that has none."""
    return RUN_PREFIX + encode_ulid(epoch_ms(now), secrets.randbits(80))


class DirectChanges:
    """Changes of runs that leave no event.

    Args:
        store: opened.
        notices: is told of every run that has changed.
        clock: tells what time it is.
    """

    def __init__(self, store: Store, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock

    async def create(self, data: Mapping[str, Any]) -> Run | Refused:
        """A new run from before event sourcing, out of the fields of a ``run_created``; its input may be
        any value."""
        now = self._clock.wall()
        fields = {key: value for key, value in data.items() if key != "input" and value is not None}
        posted = PostedEvent("run_created", fields, b"", spec_version=spec.LEGACY_SPEC_VERSION)
        candidate = admit(posted, now)
        if isinstance(candidate, Refused):
            return candidate
        try:
            encode_value(data.get("input"))
        except UnencodableError as error:
            return Refused(400, CODE_INVALID_EVENT, f"input: {error}")
        run = new_run(mint_run_id(now), candidate)
        if isinstance(run, Refused):
            return run
        run = run.model_copy(update={"input": data.get("input")})
        return await self._change(run.run_id, lambda _: Decision(run, Changes(run=run, last_slot=0)))

    async def cancel(self, run_id: str) -> Run | Refused | None:
        """Cancel a run from before event sourcing, once; None when the run is a newer one."""

        def decide(state: State) -> Decision[Run | Refused | None]:
            run = state.run
            if run is None:
                return Decision(no_run(run_id))
            if not is_legacy(run):
                return Decision(None)
            if run_state(run) is RunState.CANCELLED:
                return Decision(run)
            if run_state(run).ended:
                return Decision(Refused(409, spec.CODE_CONFLICT, f"run {run_id} is {run.status}"))
            now = self._clock.wall()
            update = {"status": "cancelled", "completed_at": now, "updated_at": now}
            run = retire(run.model_copy(update=update), now)
            changes = Changes(run=run, last_slot=state.last_slot, ended_at=now, purge=is_expired(run))
            return Decision(run, changes)

        return await self._change(run_id, decide)

    async def set_attributes(self, run_id: str, changes: object, *, allow_reserved: bool) -> Run | Refused:
        """Merge attributes into a run, whatever its state."""
        try:
            parsed = _CHANGES.validate_python(changes)
        except ValidationError:
            return Refused(400, CODE_INVALID_EVENT, "changes is no list of keys with a value or null each")
        pairs = [(change.key, change.value) for change in parsed]

        def decide(state: State) -> Decision[Run | Refused]:
            if state.run is None:
                return Decision(no_run(run_id))
            try:
                merged = merge_attributes(state.run.attributes, pairs, allow_reserved=allow_reserved)
            except InvalidAttributesError as error:
                return Decision(Refused(400, CODE_INVALID_EVENT, str(error)))
            run = state.run.model_copy(update={"attributes": merged, "updated_at": self._clock.wall()})
            return Decision(run, Changes(run=run, last_slot=state.last_slot))

        return await self._change(run_id, decide)

    async def _change(self, run_id: str, decide: Callable[[State], Decision[T]]) -> T:
        answer = await self._store.change(Wanted(run_id=run_id), decide)
        self._notices.tell(run_id)
        return answer
