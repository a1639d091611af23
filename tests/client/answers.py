"""What a server answers to the samples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eventclient.model.event_specs import EVENT_SPECS, Entity, payload_of
from eventclient.model.events import Event
from eventclient.model.ids import slot_event_id
from eventclient.wire import spec
from eventclient.wire.codec import encode_value
from eventclient.wire.frames import encode_frame
from tests.support.scripted_server import Reply

from .samples import LATER, NOW, RUN

RUN_MAP: Final[dict[str, Any]] = {
    "runId": RUN,
    "status": "running",
    "deploymentId": "dpl_1",
    "workflowName": "w",
    "createdAt": LATER,
    "updatedAt": LATER,
    "startedAt": LATER,
}


def stored_map(event: Event, slot: int = 1, run_id: str = RUN) -> dict[str, Any]:
    """The stored event of `event`, its payload left out."""
    facts = EVENT_SPECS[event.event_type]
    hidden = {facts.payload_field} if facts.payload_field else set()
    told: dict[str, Any] = {
        "eventType": event.event_type,
        "runId": run_id,
        "eventId": slot_event_id(slot),
        "createdAt": LATER,
        "specVersion": 7,
    }
    if event.correlation_id:
        told["correlationId"] = event.correlation_id
    data = event.event_data.model_dump(by_alias=True, exclude_none=True)
    data = {key: value for key, value in data.items() if key not in hidden}
    if data or facts.data_required:
        told["eventData"] = data
    return told


def success_map(event: Event, slot: int = 1, run_id: str = RUN) -> dict[str, Any]:
    """A success with the entity that `event` changed."""
    told: dict[str, Any] = {"event": stored_map(event, slot, run_id)}
    entity = EVENT_SPECS[event.event_type].entity
    times = {"createdAt": LATER, "updatedAt": LATER}
    if entity in (Entity.RUN, Entity.ATTRIBUTES):
        told["run"] = RUN_MAP | {"runId": run_id}
    elif entity is Entity.STEP:
        step = {"runId": run_id, "stepId": event.correlation_id, "stepName": "s", "attempt": 1}
        told["step"] = step | {"status": "running", "startedAt": LATER} | times
    elif entity is Entity.WAIT:
        told["wait"] = {"waitId": event.correlation_id, "runId": run_id, "status": "waiting"} | times
    return told


def single_answer(event: Event, slot: int = 1, run_id: str = RUN) -> bytes:
    """The answer to a single post that was taken."""
    return encode_value(success_map(event, slot, run_id))


def item_map(event: Event, status: int = 200, slot: int = 1, run_id: str = RUN) -> dict[str, Any]:
    """One result of a batch."""
    if status == 200:
        return {"status": 200, **success_map(event, slot, run_id)}
    return {"status": status, "error": {409: "conflict"}.get(status, f"code-{status}"), "message": "told so"}


def batch_answer(events: Sequence[Event], statuses: Sequence[int] = (), run_id: str = RUN) -> bytes:
    """The answer to a batch; each event was taken unless `statuses` says otherwise."""
    told = [*statuses, *[200] * (len(events) - len(statuses))]
    items = [
        item_map(event, status, slot, run_id)
        for slot, (event, status) in enumerate(zip(events, told, strict=True), start=1)
    ]
    return encode_value({"results": items})


def refusal(status: int, code: str | None = None, **headers: str) -> Reply:
    """A refusal with a JSON body, as servers send it; ``Retry_After`` names the header Retry-After."""
    body = {"message": "told so"} | ({"code": code} if code else {})
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(
        status=status,
        headers={"Content-Type": "application/json", **told},
        body=json.dumps(body).encode(),
    )


def answered(body: bytes) -> Reply:
    """A 200 with a CBOR body."""
    return Reply(headers={"Content-Type": spec.CBOR_CONTENT_TYPE}, body=body)


def event_frame(told: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """The frame of a stored event."""
    return encode_frame(encode_value(told), payload)


def end_frame(next_cursor: str | None, *, has_more: bool = False) -> bytes:
    """The frame that ends a log."""
    told: dict[str, Any] = {"_end": 1, "hasMore": has_more}
    return encode_frame(encode_value(told | ({"next": next_cursor} if next_cursor else {})), b"")


def log_of(events: Sequence[Event], **changes: Any) -> Reply:
    """The log of a server that stored `events` as they were sent on a clock that has not moved; `changes`
    are of each stored event."""
    frames = []
    for slot, event in enumerate(events, 1):
        told = stored_map(event, slot) | {"createdAt": event.occurred_at or NOW} | changes
        frames.append(event_frame(told, payload_of(event)))
    return log_reply(b"".join(frames) + end_frame("eid:end"))


def log_reply(body: bytes, **headers: str) -> Reply:
    """A framed log."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(headers={"Content-Type": spec.FRAMES_CONTENT_TYPE, **told}, body=body)
