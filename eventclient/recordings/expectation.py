"""Which refusals a recording foretells: what its own events say a server will not take again.

Writers store rows that a guarded log refuses: `vercel-workflow` 0.12.0 repeats ``wait_created`` of
one wait, and a run delivered twice may end twice. Posted again they meet a refusal, and that is no
difference to anything.

Source of the statuses: `@workflow/world-local` 5.0.0-beta.46, every row of an ended run executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from eventclient.model.events import Event, StepStarted

Statuses = frozenset[int]
NONE: Statuses = frozenset()
_CONFLICT = frozenset({409})

REFUSED_AFTER_END: Mapping[str, Statuses] = MappingProxyType(
    {
        "run_created": _CONFLICT,
        "run_started": frozenset({409, 410}),
        "run_completed": _CONFLICT,
        "run_failed": _CONFLICT,
        "run_cancelled": _CONFLICT,
        "attr_set": _CONFLICT,
        "step_created": _CONFLICT,
        "step_started": frozenset({409, 410}),
        "wait_created": _CONFLICT,
        # The waits of a run are deleted when it ends, and so are hooks without a retention.
        "wait_completed": frozenset({404, 409}),
        "hook_created": _CONFLICT,
        "hook_received": frozenset({404, 410}),
        "hook_disposed": frozenset({404, 409}),
    }
)
"""What an ended run answers, by type. The terminals and retries of its steps are still taken."""

_RUN_ENDS = frozenset({"run_completed", "run_failed", "run_cancelled"})
_CREATES = frozenset({"step_created", "wait_created", "hook_created", "attr_set"})
_CLOSES = frozenset({"step_completed", "step_failed", "wait_completed", "hook_disposed"})


@dataclass(slots=True)
class _Trace:
    """What the events so far have made of the run."""

    created: bool = False
    ended: bool = False
    open: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


def expected_refusals(events: Iterable[Event]) -> list[Statuses]:
    """For each of one run's events, in posting order, the refusals that are no surprise; empty for most."""
    trace = _Trace()
    expected = []
    for event in events:
        statuses = _expected(event, trace)
        _follow(event, trace, refused=bool(statuses))
        expected.append(statuses)
    return expected


def _expected(event: Event, trace: _Trace) -> Statuses:
    kind, key = event.event_type, event.correlation_id
    if key is not None and key in trace.refused and key not in trace.open | trace.closed:
        # The server never took the entity, so what happens to it later is foreign to the server.
        return frozenset({404, 409, 410})
    if trace.ended and kind in REFUSED_AFTER_END:
        return REFUSED_AFTER_END[kind]
    if kind == "run_created" and trace.created:
        return _CONFLICT
    if key is None:
        return NONE
    if key in trace.closed:
        return frozenset({404, 409}) if kind.startswith("hook_") else _CONFLICT
    if (kind in _CREATES or _is_lazy_start(event)) and key in trace.open:
        return _CONFLICT
    if trace.ended and kind == "step_failed" and key not in trace.started:
        return frozenset({410})
    return NONE


def _follow(event: Event, trace: _Trace, *, refused: bool) -> None:
    kind, key = event.event_type, event.correlation_id
    if refused:
        if key is not None and kind in _CREATES:
            trace.refused.add(key)
        return
    if kind == "run_created":
        trace.created = True
    elif kind in _RUN_ENDS:
        trace.ended = True
    elif key is not None and kind in _CLOSES:
        trace.closed.add(key)
    elif key is not None:
        trace.open.add(key)
        if kind == "step_started":
            trace.started.add(key)


def _is_lazy_start(event: Event) -> bool:
    return isinstance(event, StepStarted) and bool(event.event_data.input)
