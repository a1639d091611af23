"""The loaded state of a run as changes leave it that are not saved yet, so that many can be saved at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eventclient.devserver.state import Changes, Claim, Holder, KeyChanges, KeyRecord, State, Wanted
from eventclient.model.entities import Run, Step, Wait
from eventclient.wire.rows import NewRow

from .groups import Job

V = TypeVar("V")


def all_wanted(each: Iterable[Wanted]) -> Wanted:
    """What has to be loaded to fulfil every one of `each`, all about the same run."""
    several = list(each)
    if len(several) == 1:
        return several[0]
    return Wanted(
        run_id=several[0].run_id,
        run=any(wanted.run for wanted in several),
        steps=frozenset().union(*(wanted.steps for wanted in several)),
        waits=frozenset().union(*(wanted.waits for wanted in several)),
        hooks=frozenset().union(*(wanted.hooks for wanted in several)),
        tokens=frozenset().union(*(wanted.tokens for wanted in several)),
        claims=frozenset().union(*(wanted.claims for wanted in several)),
        keys=frozenset().union(*(wanted.keys for wanted in several)),
    )


@dataclass(slots=True)
class Load:
    """Asks for what is there of `wanted` in the transaction, to be put into `state`."""

    wanted: Wanted
    state: State = field(default_factory=State)


def decide_all(wanted: Wanted, jobs: Sequence[Job]) -> Iterator[Load | Changes | KeyChanges]:
    """Let jobs about one run decide one after the other, each seeing what those before it did.

    Args:
        wanted: what `all_wanted` says of the jobs.

    Returns:
        What the store has to do in the transaction, in this order: load, or save. Nothing is decided on
        what was not loaded, and no step is taken before the one before it is done.
    """
    overlay: Overlay | None = None
    for job in jobs:
        if overlay is None:
            load = Load(wanted)
            yield load
            overlay = Overlay(wanted.run_id, load.state)
        decision = job.look_at(overlay.view(job.wanted))
        if decision is None or decision.changes is None:
            continue
        if is_plain(decision.changes):
            overlay.add(decision.changes)
            continue
        yield from overlay.take()
        yield decision.changes
        overlay = None
    if overlay is not None:
        yield from overlay.take()


def is_plain(changes: Changes | KeyChanges) -> bool:
    """Whether `changes` only add to a run or replace parts of it, so that they can wait in an `Overlay`.

    Others take something away, or touch hooks, whose tokens pass between runs: they are saved by
    themselves, and what follows them is loaded anew.
    """
    if isinstance(changes, KeyChanges):
        return True
    return not (changes.purge or changes.ended_at or changes.gone_hooks or changes.hooks)


class Overlay:
    """A loaded state and the plain changes made to it since.

    Args:
        run_id: the run it is about.
        state: what was loaded.
    """

    def __init__(self, run_id: str, state: State) -> None:
        self._run_id = run_id
        self._loaded = state
        self._run = state.run
        self._last_slot = state.last_slot
        self._steps = dict(state.steps)
        self._waits = dict(state.waits)
        self._claims = dict(state.claims)
        self._records = dict(state.records)
        self._forget()

    def _forget(self) -> None:
        self._changed_run: Run | None = None
        self._changed_steps: dict[str, Step] = {}
        self._changed_waits: dict[str, Wait] = {}
        self._new_claims: dict[str, Claim] = {}
        self._changed_records: dict[str, KeyRecord] = {}
        self._events: list[NewRow] = []

    def view(self, wanted: Wanted) -> State:
        """The part of the state that `wanted` names, with the changes made to it."""
        return State(
            run=self._run,
            last_slot=self._last_slot,
            steps=_named(self._steps, wanted.steps),
            waits=_named(self._waits, wanted.waits),
            hooks=_named(self._loaded.hooks, wanted.hooks),
            holders={
                token: self._holder(holder)
                for token, holder in _named(self._loaded.holders, wanted.tokens).items()
            },
            claims=_named(self._claims, wanted.claims),
            records=_named(self._records, wanted.keys),
        )

    def _holder(self, holder: Holder) -> Holder:
        return Holder(holder.hook, self._run) if holder.hook.run_id == self._run_id else holder

    def add(self, changes: Changes | KeyChanges) -> None:
        """Make plain changes."""
        self._records.update(changes.records)
        self._changed_records.update(changes.records)
        if isinstance(changes, KeyChanges):
            return
        self._run = self._changed_run = changes.run
        self._last_slot = changes.last_slot
        self._steps.update(changes.steps)
        self._changed_steps.update(changes.steps)
        self._waits.update(changes.waits)
        self._changed_waits.update(changes.waits)
        self._claims.update(changes.claims)
        self._new_claims.update(changes.claims)
        self._events += changes.events

    def take(self) -> list[Changes | KeyChanges]:
        """All that was added since the last call, as one; none when nothing was."""
        if self._changed_run is None and not self._changed_records:
            return []
        taken = self._changes()
        self._forget()
        return [taken]

    def _changes(self) -> Changes | KeyChanges:
        if self._changed_run is None:
            return KeyChanges(run_id=self._run_id, records=self._changed_records)
        return Changes(
            run=self._changed_run,
            last_slot=self._last_slot,
            steps=self._changed_steps,
            waits=self._changed_waits,
            claims=self._new_claims,
            records=self._changed_records,
            events=tuple(self._events),
        )


def _named(entities: Mapping[str, V], names: frozenset[str]) -> dict[str, V]:
    return {name: entities[name] for name in names if name in entities}
