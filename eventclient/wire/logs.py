"""Framed logs, decoded for the client: LIST, GET one, a streamed ``run_started``.

A log stream is complete when its end frame has come. Anything shorter is a part, whatever the transport
says, and is never taken for the whole.

Source: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventclient.errors import ProtocolError
from eventclient.model.entities import Run, StoredEvent
from eventclient.model.event_specs import EVENT_SPECS

from . import spec
from .codec import MalformedError
from .frames import Frame, FrameDecoder
from .responses import check_stored


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What the end frame says.

    Attributes:
        next: the cursor to read on from; present on a last page too. None when there is no position.
        has_more: whether the server holds more; this alone decides paging.
    """

    next: str | None
    has_more: bool


class LogDecoder:
    """Events out of a framed log that arrives in any pieces."""

    __slots__ = ("_frames", "end")

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self.end: LogEnd | None = None
        """Set once the end frame has come; bytes behind it are ignored."""

    def receive_data(self, data: bytes) -> list[StoredEvent]:
        """The events that `data` completes.

        Raises:
            ProtocolError: the server's own error frame (`code` is its), or a frame that is no event.
        """
        events: list[StoredEvent] = []
        if self.end is not None:
            return events
        try:
            for frame in self._frames.receive_data(data):
                self.end = _read_end(frame.meta)
                if self.end is not None:
                    break
                events.append(read_event_frame(frame))
        except MalformedError as error:
            raise ProtocolError(f"the log is malformed: {error}") from None
        return events

    def receive_eof(self) -> bool:
        """The bytes have ended. Returns whether the log is complete."""
        if self.end is None:
            # An end frame counts once its body's length is there: its body says nothing.
            try:
                meta = self._frames.pending_meta()
                self.end = _read_end(meta) if meta is not None else None
            except (MalformedError, ProtocolError):
                return False
        return self.end is not None


def _is_one(value: object) -> bool:
    return value == 1 and not isinstance(value, bool)


def _read_end(meta: Mapping[str, Any]) -> LogEnd | None:
    """The end frame that `meta` is; None for an event frame. Raises ProtocolError for an error frame."""
    if _is_one(meta.get(spec.KEY_END)):
        has_more, cursor = meta.get("hasMore"), meta.get("next")
        if not isinstance(has_more, bool) or not isinstance(cursor, str | None):
            raise MalformedError("the end frame lacks hasMore, or next is no text")
        return LogEnd(cursor or None, has_more)
    if _is_one(meta.get(spec.KEY_ERROR)):
        code, message = meta.get("code"), meta.get("message")
        if not isinstance(code, str):
            raise MalformedError("the error frame has no code")
        told = f": {message}" if isinstance(message, str) else ""
        if code == spec.CODE_PAYLOAD_MISSING:
            told += "; the run cannot be replayed"
        raise ProtocolError(f"the server cannot finish the log ({code}){told}", code=code)
    for key in meta:
        if isinstance(key, str) and key.startswith("_"):
            raise MalformedError("unexpected control frame")
    return None


def read_event_frame(frame: Frame) -> StoredEvent:
    """The stored event of one frame, its body under the payload field.

    Raises:
        MalformedError: it is no event, or has a body where its type has no payload.
    """
    meta = frame.meta
    if frame.body:
        kind, data = meta.get("eventType"), meta.get("eventData")
        facts = EVENT_SPECS.get(kind) if isinstance(kind, str) else None
        if facts is None or facts.payload_field is None:
            raise MalformedError(f"a {kind} carries a body, its type has no payload")
        if not isinstance(data, dict):
            raise MalformedError(f"a {kind} carries a body and has no eventData")
        data[facts.payload_field] = frame.body
    try:
        return check_stored(StoredEvent.read(meta))
    except ValueError as error:
        raise MalformedError(str(error)) from None


def decode_event_body(body: bytes) -> StoredEvent:
    """The event of a GET one answer.

    Raises:
        ProtocolError: not one whole event frame, or the server's own error frame.
    """
    try:
        frame = next(FrameDecoder().receive_data(body), None)
        if frame is None:
            raise ProtocolError("the answer is cut off before its event is whole")
        if _read_end(frame.meta) is not None:
            raise ProtocolError("the answer holds no event")
        return read_event_frame(frame)
    except MalformedError as error:
        raise ProtocolError(f"the answer is malformed: {error}") from None


def fold_run(events: Sequence[StoredEvent]) -> Run:
    """The running run that a streamed ``run_started`` log describes.

    Raises:
        MalformedError: the log lacks its ``run_created`` or ``run_started``.
    """
    created = next((event for event in events if event.event_type == "run_created"), None)
    started = next((event for event in events if event.event_type == "run_started"), None)
    if created is None or created.event_data is None or started is None:
        raise MalformedError("the log lacks its run_created or run_started")
    data = created.event_data
    attributes = _fold_attributes(data.get("attributes"), events)
    changed = [event for event in events if event.event_type in ("run_started", "attr_set")]
    try:
        return Run.read(
            {
                "runId": created.run_id,
                "status": "running",
                "deploymentId": data.get("deploymentId"),
                "workflowName": data.get("workflowName"),
                "specVersion": created.spec_version,
                "executionContext": data.get("executionContext"),
                "input": data.get("input"),
                "attributes": attributes,
                "encryptionPublicKey": data.get("encryptionPublicKey"),
                "createdAt": created.created_at,
                "updatedAt": changed[-1].created_at,
                "startedAt": started.created_at,
            }
        )
    except ValueError as error:
        raise MalformedError(str(error)) from None


def _fold_attributes(initial: object, events: Sequence[StoredEvent]) -> dict[str, str]:
    attributes = dict(initial) if isinstance(initial, Mapping) else {}
    for event in events:
        changes = (event.event_data or {}).get("changes") if event.event_type == "attr_set" else None
        for change in changes if isinstance(changes, list) else ():
            if not isinstance(change, Mapping) or not isinstance(change.get("key"), str):
                raise MalformedError("an attr_set holds a change without a key")
            if change.get("value") is None:
                attributes.pop(change["key"], None)
            else:
                attributes[change["key"]] = change["value"]
    return attributes
