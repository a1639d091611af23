"""From what was posted to what a store is asked to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Generic

from eventclient.model.event_specs import Entity
from eventclient.wire import spec
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused, Written

from .admission import Candidate, admit, check_batch, is_posted_pair
from .draft import Draft
from .hooks import rule_hook
from .legacy import rule_version
from .ruling import Repeated, Ruling, no_run
from .runs import rule_attributes, rule_run
from .state import State, Wanted
from .steps import rule_step
from .store import Decision, T
from .waits import rule_wait

RULINGS: Final[Mapping[Entity, Callable[[Draft, Candidate], Ruling]]] = {
    Entity.RUN: rule_run,
    Entity.ATTRIBUTES: rule_attributes,
    Entity.STEP: rule_step,
    Entity.WAIT: rule_wait,
    Entity.HOOK: rule_hook,
}
"""Who rules on the events about an entity."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the events of a request met.

    Attributes:
        rulings: one for each event, in order; none when the request was refused whole.
        last_slot: the highest slot of the log behind it.
        refused: why the request was refused whole.
    """

    rulings: tuple[Ruling, ...]
    last_slot: int
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a request met.

    Attributes:
        is_replayed: it was recorded before.
        end: the first slot that is not to be read along with it; None when the whole log may be.
    """

    result: T
    is_replayed: bool = False
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a store is asked to do about a request.

    Attributes:
        decide: pure; see `Store.change`.
        resolves: for each event, whether its answer is to hold payloads.
    """

    wanted: Wanted
    decide: Callable[[State], Decision[Evaluation]]
    resolves: tuple[bool, ...]


def plan_event(run_id: str, posted: PostedEvent, now: datetime) -> Plan | Refused:
    """The plan for a single post."""
    candidate = admit(posted, now)
    if isinstance(candidate, Refused):
        return candidate

    def decide(state: State) -> Decision[Evaluation]:
        draft = Draft(run_id, state, now)
        ruling = rule_version(draft, candidate) or RULINGS[candidate.entity](draft, candidate)
        return Decision(Evaluation((ruling,), draft.last_slot), draft.changes())

    return Plan(want(run_id, [candidate]), decide, (posted.resolve,))


def plan_batch(run_id: str, batch: Sequence[PostedEvent], now: datetime) -> Plan | Refused:
    """The plan for a batch, whose events are taken or refused each for itself, and committed at once."""
    refused = check_batch(batch)
    if refused is not None:
        return refused
    admitted = [admit(posted, now) for posted in batch]
    candidates = [candidate for candidate in admitted if isinstance(candidate, Candidate)]

    def decide(state: State) -> Decision[Evaluation]:
        draft = Draft(run_id, state, now)
        refused = _check_run(draft)
        if refused is not None:
            return Decision(Evaluation((), draft.last_slot, refused))
        rulings = tuple(_rule_batch(draft, batch, admitted))
        return Decision(Evaluation(rulings, draft.last_slot), draft.changes())

    return Plan(want(run_id, candidates), decide, tuple(posted.resolve for posted in batch))


def _check_run(draft: Draft) -> Refused | None:
    """Why the run takes no batches; None when it does."""
    if draft.run is None:
        return no_run(draft.run_id)
    if (draft.run.spec_version or 0) < spec.MIN_SLOT_SPEC_VERSION:
        code = spec.CODE_BATCH_REQUIRES_SLOT_IDENTITY
        version = spec.MIN_SLOT_SPEC_VERSION
        return Refused(400, code, f"run {draft.run_id} was created below spec version {version}")
    return None


def _rule_batch(
    draft: Draft, batch: Sequence[PostedEvent], admitted: Sequence[Candidate | Refused]
) -> list[Written | Refused]:
    results: list[Written | Refused] = []
    while len(results) < len(batch):
        index = len(results)
        following = index + 1
        if following < len(batch) and is_posted_pair(batch[index], batch[following]):
            results += _rule_pair(draft, admitted[index], admitted[following])
        else:
            results.append(_rule(draft, admitted[index]))
    return results


def _rule(draft: Draft, candidate: Candidate | Refused) -> Written | Refused:
    if isinstance(candidate, Refused):
        return candidate
    ruling = RULINGS[candidate.entity](draft, candidate)
    if isinstance(ruling, Repeated):
        raise TypeError(f"{candidate.event_type} has a key and is not for batches")
    return ruling


def _rule_pair(
    draft: Draft, first: Candidate | Refused, second: Candidate | Refused
) -> list[Written | Refused]:
    if isinstance(second, Refused):
        return [second, second]
    created = _rule(draft, first)
    if isinstance(created, Refused):
        return [created, created]
    started = _rule(draft, second)
    if isinstance(started, Refused):
        raise TypeError("a step that was just created can always be started")
    return [replace(created, step=started.step), started]


def want(run_id: str, candidates: Iterable[Candidate]) -> Wanted:
    """What has to be loaded to evaluate `candidates`."""
    subjects: dict[Entity, set[str]] = {entity: set() for entity in Entity}
    tokens = set()
    claims = set()
    for candidate in candidates:
        if candidate.correlation_id is not None:
            subjects[candidate.entity].add(candidate.correlation_id)
        if candidate.event_type == "hook_created":
            tokens.add(candidate.data["token"])
        if candidate.key is not None:
            claims.add(candidate.key)
    return Wanted(
        run_id=run_id,
        steps=frozenset(subjects[Entity.STEP]),
        waits=frozenset(subjects[Entity.WAIT]),
        hooks=frozenset(subjects[Entity.HOOK]),
        tokens=frozenset(tokens),
        claims=frozenset(claims),
    )
