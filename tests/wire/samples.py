"""Stored events and entities to encode."""

from __future__ import annotations

from datetime import UTC, datetime

from eventclient.model.entities import StoredEvent
from eventclient.wire.rows import NewRow
from tests.support.rows import new_row

AT = datetime(2026, 1, 1, 12, 0, 0, 7000, tzinfo=UTC)
EVENT_ID = "evnt_00000000000000000000000001"
IDENTITY = {"eventType": "step_created", "runId": "r", "eventId": EVENT_ID, "createdAt": AT}
EVENT = StoredEvent.read({**IDENTITY, "correlationId": "s", "eventData": {"stepName": "n", "input": b"in"}})
BARE = StoredEvent.read({**IDENTITY, "eventType": "run_started"})
EMPTY = StoredEvent.read({**IDENTITY, "eventType": "run_completed", "eventData": {"output": b"out"}})

RUN = {
    "runId": "r",
    "status": "failed",
    "deploymentId": "d",
    "workflowName": "w",
    "createdAt": AT,
    "updatedAt": AT,
    "attributes": {},
    "input": b"in",
    "error": b"err",
    "completedAt": AT,
}
STEP = {
    "runId": "r",
    "stepId": "s",
    "stepName": "n",
    "status": "completed",
    "attempt": 1,
    "createdAt": AT,
    "updatedAt": AT,
    "input": b"in",
    "output": b"out",
    "error": b"err",
}
HOOK = {
    "runId": "r",
    "hookId": "h",
    "token": "t",
    "ownerId": "o",
    "projectId": "p",
    "environment": "e",
    "createdAt": AT,
    "metadata": b"m",
    "isWebhook": False,
}


def row(event: StoredEvent) -> NewRow:
    return new_row(event)


WAIT = {"runId": "r", "waitId": "w", "status": "waiting", "createdAt": AT, "updatedAt": AT, "resumeAt": AT}
