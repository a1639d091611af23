"""An event of every type: with as little as it may have, with all it may have, and with given ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.model.parsing import parse_event

RUN: Final = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVY"
OTHER_RUN: Final = "wrun_01M8N3CBRD49RJFBJ1MY1YYZVZ"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
LATER: Final = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)

_TELEMETRY: Final[dict[str, Any]] = {
    "ttfs": 1.5,
    "stso": 2,
    "stepCount": 3,
    "eventCount": 4,
    "rsfs": 0.25,
    "finalSchedulingReplay": 5,
    "optimizations": ["a", "b"],
}
_CREATION: Final[dict[str, Any]] = {
    "deploymentId": "dpl_1",
    "workflowName": "w",
    "input": b"devl in",
    "executionContext": {"traceCarrier": {"traceparent": "00-1"}, "version": [1, None, True, 2.5]},
    "attributes": {"tier": "gold", "Ünïcode": "ß"},
    "allowReservedAttributes": True,
    "encryptionPublicKey": "AAAA",
}

FULL_DATA: Final[dict[str, dict[str, Any]]] = {
    "run_created": _CREATION,
    "run_started": _CREATION,
    "run_completed": {"output": b"devl out"},
    "run_failed": {"error": b"devl err", "errorCode": "USER_ERROR"},
    "run_cancelled": {"cancelReason": "x" * 512},
    "attr_set": {
        "changes": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
        "writer": {"type": "step", "stepId": "step_1", "attempt": 1},
        "allowReservedAttributes": True,
    },
    "step_created": {"stepName": "s", "workflowName": "w", "input": b"devl in"},
    "step_started": {
        "stepName": "s",
        "attempt": 2,
        "workflowName": "w",
        "input": b"devl in",
        "ownerMessageId": "msg_1",
    },
    "step_completed": {"stepName": "s", "workflowName": "w", "result": b"devl res", **_TELEMETRY},
    "step_failed": {"stepName": "s", "error": b"devl err", **_TELEMETRY},
    "step_retrying": {"stepName": "s", "error": b"devl err", "retryAfter": LATER},
    "hook_created": {
        "token": "tok",
        "tokenRetentionUntil": LATER,
        "metadata": b"devl meta",
        "isWebhook": True,
        "isSystem": False,
    },
    "hook_received": {"token": "tok", "payload": b"devl pay"},
    "hook_disposed": {"token": "tok"},
    "wait_created": {"resumeAt": LATER},
    "wait_completed": {"resumeAt": LATER},
}
"""Of each type, every field of its ``eventData``."""

LEAST_DATA: Final[dict[str, dict[str, Any]]] = {
    "run_created": {"deploymentId": "dpl_1", "workflowName": "w"},
    "attr_set": {"changes": [{"key": "a", "value": "1"}], "writer": {"type": "workflow"}},
    "step_created": {"stepName": "s"},
    "hook_created": {"token": "tok"},
    "wait_created": {"resumeAt": LATER},
}
"""Of each type that has required fields, these."""

TYPES: Final = tuple(sorted(EVENT_SPECS))
UNCORRELATED: Final = frozenset(
    {"run_created", "run_started", "run_completed", "run_failed", "run_cancelled"}
)


def mapping(kind: str, key: str | None = "c_1", **data: Any) -> dict[str, Any]:
    """What `parse_event` takes for an event of type `kind` on the entity `key`."""
    told: dict[str, Any] = {"eventType": kind, "specVersion": 7, "eventData": LEAST_DATA.get(kind, {}) | data}
    if key is not None and kind not in UNCORRELATED:
        told["correlationId"] = key
    return told


def full_mapping(kind: str) -> dict[str, Any]:
    """The same with every field there is."""
    return mapping(kind) | {
        "eventData": FULL_DATA[kind],
        "occurredAt": LATER - timedelta(days=1),
        "computeInstanceId": "inst_1",
    }


def event(kind: str, key: str | None = "c_1", **data: Any) -> Event:
    """An event of type `kind` on the entity `key`."""
    return parse_event(mapping(kind, key, **data))


def steps(count: int, start: int = 0) -> list[Event]:
    """As many ``step_created``, each of its own step."""
    return [event("step_created", f"step_{number}") for number in range(start, start + count)]


def pair(key: str = "step_pair") -> list[Event]:
    """A ``step_created`` with its ``step_started``."""
    return [event("step_created", key), event("step_started", key)]
