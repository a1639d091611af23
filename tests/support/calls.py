"""The calls of the captured cases, as our client is called for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from eventclient import Event, EventClient, Log, StoredEvent, parse_event

from .tagged_json import read

PARAM_NAMES: Final = {
    "requestId": "request_id",
    "resolveData": "resolve_data",
    "eventCount": "event_count",
    "sinceCursor": "since_cursor",
    "resumeId": "resume_id",
    "resumePayloadDigest": "resume_payload_digest",
    "skipPreload": "skip_preload",
    "viaStepDispatch": "via_step_dispatch",
    "replayDivergenceCount": "replay_divergence_count",
}
BATCH_PARAMS: Final = ("requestId", "resolveData")
"""What of it a batch sends; the reference ignores the rest there."""


@dataclass(frozen=True, slots=True)
class Write:
    """A captured `events.create` or `events.createBatch`."""

    run_id: Any
    mappings: list[dict[str, Any]]
    params: dict[str, Any]
    batch: bool

    def events(self) -> list[Event]:
        return [parse_event(mapping) for mapping in self.mappings]


@dataclass(frozen=True, slots=True)
class Reading:
    """A captured `events.get`, `events.list` or `events.listByCorrelationId`."""

    run_id: str
    event_id: str | None
    options: dict[str, Any]

    async def first(self, client: EventClient) -> StoredEvent | Log:
        """The event, or the first page."""
        if self.event_id is not None:
            return await client.get_event(self.run_id, self.event_id, **self.options)
        pages = client.list_events(self.run_id, **self.options)
        try:
            return await anext(pages)
        finally:
            await pages.aclose()


def write_of(case: dict[str, Any]) -> Write:
    """The write of `case`. Time and instance stand beside the event there, on the event here."""
    run_id, subject, *rest = (read(arg) for arg in case["call"]["args"])
    given = rest[0] if rest else {}
    batch = case["call"]["method"] == "events.createBatch"
    if batch:
        mappings = [
            item["event"] | {key: item[key] for key in ("occurredAt", "computeInstanceId") if key in item}
            for item in subject
        ]
    else:
        beside = {key: given[key] for key in ("occurredAt", "computeInstanceId") if key in given}
        mappings = [subject | beside]
    taken = BATCH_PARAMS if batch else tuple(PARAM_NAMES)
    params = {PARAM_NAMES[key]: value for key, value in given.items() if key in taken}
    return Write(run_id, mappings, params, batch)


def reading_of(case: dict[str, Any]) -> Reading:
    """The read of `case`."""
    args = [read(arg) for arg in case["call"]["args"]]
    if case["call"]["method"] == "events.get":
        given = args[2] if len(args) > 2 else {}
        return Reading(args[0], args[1], {PARAM_NAMES[key]: value for key, value in given.items()})
    asked = args[0]
    page = asked.get("pagination", {})
    options = {
        "limit": page.get("limit"),
        "cursor": page.get("cursor"),
        "sort_order": page.get("sortOrder"),
        "resolve_data": asked.get("resolveData"),
        "correlation_id": asked.get("correlationId"),
    }
    given = {key: value for key, value in options.items() if value is not None}
    return Reading(asked["runId"], None, given)
