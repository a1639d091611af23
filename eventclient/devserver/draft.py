"""The state of a run while its events are being evaluated: what was loaded, and what has changed since."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.lifecycle import KeyState, is_releasable, is_retained, run_state
from eventclient.wire.rows import NewRow
from eventclient.wire.stored import encode_row_meta

from .admission import Candidate, says_the_same
from .retention import is_expired, retire
from .state import Changes, Claim, Holder, State


class Draft:
    """Events are evaluated against a draft one after the other; each sees what those before it did.

    Nothing of it is durable until `changes` are saved, so dropping it undoes everything, slots included.
    """

    def __init__(self, run_id: str, state: State, now: datetime) -> None:
        self.run_id = run_id
        self.now = now
        self.run = state.run
        self.run_state = run_state(state.run)
        self.last_slot = state.last_slot
        self.steps = dict(state.steps)
        self.waits = dict(state.waits)
        self.hooks = dict(state.hooks)
        self._holders = dict(state.holders)
        self._claims = dict(state.claims)
        self._events: list[NewRow] = []
        self._changed_steps: dict[str, Step] = {}
        self._changed_waits: dict[str, Wait] = {}
        self._changed_hooks: dict[str, Hook] = {}
        self._new_claims: dict[str, Claim] = {}
        self._gone_hooks: list[tuple[str, str]] = []
        self._ended_at: datetime | None = None

    def key_state(self, candidate: Candidate) -> KeyState:
        """Whether the key of `candidate` has been used, and by an event that says the same."""
        claim = self._claims.get(candidate.key) if candidate.key is not None else None
        if claim is None:
            return KeyState.NEW
        return KeyState.SAME if says_the_same(claim.detail, candidate.detail) else KeyState.OTHER

    def claimed_slot(self, candidate: Candidate) -> int:
        """The slot of the event that used the key of `candidate`."""
        return self._claims[candidate.key or ""].slot

    def holder(self, token: str) -> Hook | None:
        """The hook that holds `token` and does not have to let go of it."""
        holder = self._holders.get(token)
        if holder is None or is_releasable(holder.hook, run_state(holder.run), self.now):
            return None
        return holder.hook

    # -- changes -------------------------------------------------------------------------------

    def append(
        self, candidate: Candidate, *, event_type: str | None = None, data: dict[str, Any] | None = None
    ) -> NewRow:
        """Add a row to the log, at the next slot; `event_type` and `data` stand in for the candidate's."""
        self.last_slot += 1
        kept = candidate.data if data is None else data
        kind = event_type or candidate.event_type
        facts = EVENT_SPECS.get(kind)
        payload = None
        if facts is not None and facts.payload_field in kept:
            kept = dict(kept)
            payload = kept.pop(facts.payload_field)
        meta = encode_row_meta(
            event_type=kind,
            run_id=self.run_id,
            slot=self.last_slot,
            created_at=candidate.at,
            correlation_id=candidate.correlation_id,
            spec_version=candidate.spec_version,
            resume_id=candidate.resume_id,
            event_data=kept if kept or payload or facts is None or facts.data_required else None,
        )
        identity = (self.run_id, kind, candidate.correlation_id)
        row = NewRow(self.last_slot, meta, payload or b"", *identity)
        self._events.append(row)
        if candidate.key is not None and event_type is None:
            claim = Claim(self.last_slot, candidate.detail)
            self._claims[candidate.key] = self._new_claims[candidate.key] = claim
        return row

    def put_run(self, run: Run) -> Run:
        self.run = run
        self.run_state = run_state(run)
        return run

    def end_run(self, run: Run) -> Run:
        """Put an ended run: its waits go, its hooks but for those whose token is retained, and its
        payloads if it asked for that."""
        self._ended_at = self.now
        self.waits.clear()
        self._changed_waits.clear()
        self.hooks = {name: hook for name, hook in self.hooks.items() if is_retained(hook, self.now)}
        return self.put_run(retire(run, self.now))

    def put_step(self, step: Step) -> Step:
        self.steps[step.step_id] = self._changed_steps[step.step_id] = step
        return step

    def put_wait(self, correlation_id: str, wait: Wait) -> Wait:
        self.waits[correlation_id] = self._changed_waits[correlation_id] = wait
        return wait

    def put_hook(self, hook: Hook) -> Hook:
        """Put a new hook; whoever held its token and had to let go of it is gone."""
        holder = self._holders.get(hook.token)
        if holder is not None:
            self._gone_hooks.append((holder.hook.run_id, holder.hook.hook_id))
        self._holders[hook.token] = Holder(hook, self.run)
        self.hooks[hook.hook_id] = self._changed_hooks[hook.hook_id] = hook
        return hook

    def drop_hook(self, hook_id: str) -> None:
        self._gone_hooks.append((self.run_id, hook_id))
        self._holders.pop(self.hooks.pop(hook_id).token, None)

    def changes(self) -> Changes | None:
        """What has to be saved; None when nothing happened."""
        if self.run is None or not self._events:
            return None
        return Changes(
            run=self.run,
            last_slot=self.last_slot,
            purge=is_expired(self.run),
            ended_at=self._ended_at,
            gone_hooks=tuple(self._gone_hooks),
            events=tuple(self._events),
            steps=self._changed_steps,
            waits=self._changed_waits,
            hooks=self._changed_hooks,
            claims=self._new_claims,
        )
