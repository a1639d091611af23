"""The loaded state of a run as changes leave it that are not saved yet, so that many can be saved at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from eventclient.devserver.state import Changes, Claim, Holder, State, Wanted
from eventclient.model.entities import Run, Step, Wait
from eventclient.wire.rows import NewRow

V = TypeVar("V")


def all_wanted(each: Iterable[Wanted]) -> Wanted:
    """What has to be loaded to fulfil every one of `each`, all about the same run."""
    several = list(each)
    if len(several) == 1:
        return several[0]
    return Wanted(
        run_id=several[0].run_id,
        steps=frozenset().union(*(wanted.steps for wanted in several)),
        waits=frozenset().union(*(wanted.waits for wanted in several)),
        hooks=frozenset().union(*(wanted.hooks for wanted in several)),
        tokens=frozenset().union(*(wanted.tokens for wanted in several)),
        claims=frozenset().union(*(wanted.claims for wanted in several)),
    )


def is_plain(changes: Changes) -> bool:
    """Whether `changes` only add to a run or replace parts of it, so that they can wait in an `Overlay`.

    Others take something away, or touch hooks, whose tokens pass between runs: they are saved by
    themselves, and what follows them is loaded anew.
    """
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
        self._forget()

    def _forget(self) -> None:
        self._changed_run: Run | None = None
        self._changed_steps: dict[str, Step] = {}
        self._changed_waits: dict[str, Wait] = {}
        self._new_claims: dict[str, Claim] = {}
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
        )

    def _holder(self, holder: Holder) -> Holder:
        return Holder(holder.hook, self._run) if holder.hook.run_id == self._run_id else holder

    def add(self, changes: Changes) -> None:
        """Make plain changes."""
        self._run = self._changed_run = changes.run
        self._last_slot = changes.last_slot
        self._steps.update(changes.steps)
        self._changed_steps.update(changes.steps)
        self._waits.update(changes.waits)
        self._changed_waits.update(changes.waits)
        self._claims.update(changes.claims)
        self._new_claims.update(changes.claims)
        self._events += changes.events

    def take(self) -> Changes | None:
        """All that was added since the last call, as one; None when nothing was."""
        if self._changed_run is None:
            return None
        taken = Changes(
            run=self._changed_run,
            last_slot=self._last_slot,
            steps=self._changed_steps,
            waits=self._changed_waits,
            claims=self._new_claims,
            events=tuple(self._events),
        )
        self._forget()
        return taken


def _named(entities: Mapping[str, V], names: frozenset[str]) -> dict[str, V]:
    return {name: entities[name] for name in names if name in entities}
