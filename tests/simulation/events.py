"""The events that callers write. Each is told from all others by its payload or its ``occurredAt``."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, Final

from eventclient import Event, parse_event

from .clock import BEGINNING
from .submission import Submission

SHARED_COUNT: Final = 2
"""How many names of steps, and of waits, everybody uses."""
LAZY_INPUT: Final = b"lazy"
"""What a lazy start brings to the creation of its step."""
_STAMP: Final = timedelta(milliseconds=7)
_PAYLOADS: Final = {
    "run_created": "input",
    "run_completed": "output",
    "step_created": "input",
    "step_completed": "result",
    "step_failed": "error",
    "step_retrying": "error",
    "hook_created": "metadata",
    "hook_received": "payload",
}
_KINDS: Final = (
    ("pair", 5),
    ("step_created", 3),
    ("step_started", 4),
    ("lazy_start", 1),
    ("step_retrying", 2),
    ("step_completed", 4),
    ("step_failed", 1),
    ("wait_created", 2),
    ("wait_completed", 2),
    ("attr_set", 1),
    ("attr_set_by_step", 1),
    ("hook_created", 1),
    ("hook_received", 2),
    ("hook_disposed", 1),
    ("shared", 6),
    ("run_completed", 0.2),
)


class EventMaker:
    """Makes events.

    Args:
        has_disposals: hooks may be disposed of. Where keys are ignored they may not: a creation that was
            refused and comes once more could then succeed behind everybody's back.
    """

    def __init__(self, chance: Random, *, has_disposals: bool) -> None:
        self._chance = chance
        kinds = [(name, weight) for name, weight in _KINDS if has_disposals or name != "hook_disposed"]
        self._names = [name for name, _ in kinds]
        self._weights = [weight for _, weight in kinds]
        self._count = 0
        self._steps: dict[str, list[str]] = {}
        self._waits: dict[str, list[str]] = {}
        self._hooks: dict[str, list[str]] = {}

    def create_run(self, version: int) -> Submission:
        """The creation of a run of the spec version `version`."""
        data = {"deploymentId": "dpl_1", "workflowName": "flow"}
        return self._make("run_created", data=data, version=version)

    def start_run(self) -> Submission:
        """The start of a run."""
        return self._make("run_started")

    def make(self, run_id: str) -> list[Submission]:
        """One event about `run_id`, or a pair."""
        (kind,) = self._chance.choices(self._names, self._weights)
        steps = self._steps.setdefault(run_id, [])
        if kind in ("step_started", "step_retrying", "step_completed", "step_failed") and not steps:
            kind = "pair"
        if kind in ("pair", "step_created", "lazy_start", "shared"):
            return self._open_step(kind, steps)
        if kind.startswith("step_"):
            return [self._on_step(kind, self._chance.choice(steps))]
        if kind.startswith("wait_"):
            return [self._on_wait(kind, self._waits.setdefault(run_id, []))]
        if kind.startswith("hook_"):
            return [self._on_hook(kind, self._hooks.setdefault(run_id, []))]
        if kind.startswith("attr_set"):
            return [self._on_attributes(kind)]
        return [self._make(kind)]

    def _open_step(self, kind: str, steps: list[str]) -> list[Submission]:
        chance = self._chance
        if kind == "shared":
            shared = int(chance.random() * SHARED_COUNT)
            if chance.random() < 0.3:
                return [self._make("wait_created", f"wait_shared_{shared}", {"resumeAt": BEGINNING})]
            step = f"step_shared_{shared}"
        else:
            step = f"step_{self._count}"
        steps.append(step)
        if kind == "lazy_start":
            return [self._make("step_started", step, {"stepName": "add", "input": LAZY_INPUT})]
        made = [self._make("step_created", step, {"stepName": "add"})]
        if kind == "pair" or (kind == "shared" and chance.random() < 0.7):
            made.append(self._make("step_started", step))
        return made

    def _on_step(self, kind: str, step: str) -> Submission:
        data: dict[str, Any] = {}
        if kind == "step_retrying" and self._chance.random() < 0.4:
            data["retryAfter"] = BEGINNING + timedelta(seconds=round(self._chance.random() * 20))
        return self._make(kind, step, data)

    def _on_wait(self, kind: str, waits: list[str]) -> Submission:
        if kind == "wait_completed" and waits:
            return self._make(kind, self._chance.choice(waits))
        waits.append(f"wait_{self._count}")
        return self._make("wait_created", waits[-1], {"resumeAt": BEGINNING})

    def _on_hook(self, kind: str, hooks: list[str]) -> Submission:
        if kind != "hook_created" and hooks:
            return self._make(kind, self._chance.choice(hooks))
        hooks.append(f"hook_{self._count}")
        return self._make("hook_created", hooks[-1], {"token": f"token {self._count}"})

    def _on_attributes(self, kind: str) -> Submission:
        changes = [{"key": f"k{self._count}", "value": "v"}]
        if kind == "attr_set":
            writer: dict[str, Any] = {"type": "workflow"}
            return self._make(kind, f"attr_{self._count}", {"changes": changes, "writer": writer})
        writer = {"type": "step", "stepId": "step_1", "attempt": 1}
        return self._make("attr_set", None, {"changes": changes, "writer": writer})

    def _make(
        self,
        event_type: str,
        correlation_id: str | None = None,
        data: dict[str, Any] | None = None,
        *,
        version: int = 7,
    ) -> Submission:
        self._count += 1
        data = {} if data is None else data
        payload = _PAYLOADS.get(event_type)
        if payload is not None:
            data[payload] = b"payload %d" % self._count
        told: dict[str, Any] = {"eventType": event_type, "specVersion": version, "eventData": data}
        if correlation_id is not None:
            told["correlationId"] = correlation_id
        if payload is None or self._chance.random() < 0.7:
            told["occurredAt"] = BEGINNING - timedelta(days=1) + self._count * _STAMP
        return Submission(self._count, parse_event(told))


def payload_of_stored(event: Event) -> bytes:
    """The bytes that the log keeps of `event`'s payload."""
    field = _PAYLOADS.get(event.event_type)
    return getattr(event.event_data, field) if field is not None else b""
