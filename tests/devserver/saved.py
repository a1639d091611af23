"""Things to save in a store, and ways to save and load them."""

from __future__ import annotations

from typing import Any

from eventclient.devserver.state import Changes, Claim, State, Wanted
from eventclient.devserver.store import Decision, Store
from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait
from eventclient.model.ids import slot_event_id
from eventclient.wire.rows import NewRow
from tests.devserver.api import AT, RUN
from tests.support.rows import new_row

OTHER = "wrun_other"


def run(run_id: str = RUN, **fields: Any) -> Run:
    fields = {"status": "running", "executionContext": {"x": [1, None, 2.5]}, "input": b"in", **fields}
    identity = {"runId": run_id, "deploymentId": "d", "workflowName": "w", "createdAt": AT, "updatedAt": AT}
    return Run.read({**identity, **fields})


def step(name: str = "s", **fields: Any) -> Step:
    fields = {"status": "pending", "attempt": 0, "input": b"in", "retryAfter": AT, **fields}
    identity = {"runId": RUN, "stepId": name, "stepName": "work", "createdAt": AT, "updatedAt": AT}
    return Step.read({**identity, **fields})


def wait(name: str = "w") -> Wait:
    identity = {"runId": RUN, "waitId": f"{RUN}-{name}", "createdAt": AT, "updatedAt": AT}
    return Wait.read({**identity, "status": "waiting", "resumeAt": AT})


def hook(name: str = "h", run_id: str = RUN, **fields: Any) -> Hook:
    owner = {"ownerId": "o", "projectId": "p", "environment": "e"}
    return Hook.read({"runId": run_id, "hookId": name, "token": "t", "createdAt": AT, **owner, **fields})


def row(slot: int, event_type: str = "wait_completed", **fields: Any) -> NewRow:
    identity = {"runId": RUN, "eventId": slot_event_id(slot), "eventType": event_type, "createdAt": AT}
    event = StoredEvent.read({**identity, **fields})
    return new_row(event)


async def save(store: Store, changes: Changes) -> None:
    await store.change(Wanted(run_id=changes.run.run_id), lambda _: Decision(None, changes))


async def load(store: Store, run_id: str = RUN, **wanted: Any) -> State:
    names: dict[str, Any] = {key: frozenset(value) for key, value in wanted.items()}
    return await store.change(Wanted(run_id=run_id, **names), Decision)


EVERYTHING = Changes(
    run=run(),
    last_slot=3,
    steps={"s": step()},
    waits={"w": wait()},
    hooks={"h": hook(metadata=b"m", isWebhook=False)},
    claims={"key": Claim(2, "detail")},
    events=(
        row(1, "run_created", eventData={"deploymentId": "d", "workflowName": "w", "input": b"in"}),
        row(2, "run_started"),
        row(3, "step_created", correlationId="s", specVersion=7, eventData={"stepName": "work"}),
    ),
)
