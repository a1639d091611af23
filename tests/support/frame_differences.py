"""Where our client reads a framed log otherwise than the published one on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from eventclient import ProtocolError
from eventclient.wire.frames import decode_frames

from .expectations import RESENT, Difference, differs
from .tagged_json import read
from .vectors import FOLDER, load


def _read_as(name: str) -> Any:
    """What the published client returned for another case."""
    return read(load("frames", name)["observed"]["returned"])


def _first_body(name: str) -> bytes:
    """The body of the first event frame that `name` was answered with."""
    file = load("frames", name)["responses"][0]["body_file"]
    return decode_frames((FOLDER / "frames" / file).read_bytes())[0].body


_FIVE_EVENTS: Final = _read_as("chunks-content-length")


def _reads(rule: str, name: str, **changes: Any) -> Difference:
    return differs(rule, error=None, returned=_read_as(name), **changes)


def _refused(rule: str) -> Difference:
    return differs(rule, error=ProtocolError, status=None, returned=None)


def _opaque(name: str) -> Difference:
    return differs(
        "payloads are opaque bytes, those of old structured errors too",
        members={"data.0.eventData.error": _first_body(name)},
    )


def _once(name: str) -> Difference:
    page = _read_as(name)
    events = list({event["eventId"]: event for event in page["data"]}.values())
    return differs("reads: an event that is sent twice is told once", returned={**page, "data": events})


_AGAIN: Final = "reads: a log that is cut off is read again from its start, or from its last whole event"
_NO_BIGINT: Final = "answers: Python reads whole numbers of any size"
_CUT_START: Final = differs("answers: a log cut off before its first event is malformed", error=ProtocolError)
_NO_LIFECYCLE: Final = differs(
    "a log that was read whole and lacks its start will not have it the next time", requests=1, waits=()
)

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "close-after-headers": _reads(_AGAIN, "chunks-content-length"),
    "close-mid-body-after-event-limit": differs(
        # The second answer of this script holds the last three events only.
        _AGAIN,
        error=None,
        returned={**_FIVE_EVENTS, "data": _FIVE_EVENTS["data"][2:]},
    ),
    "close-mid-body-content-length": _reads(_AGAIN, "chunks-content-length"),
    "close-mid-chunked": _reads(_AGAIN, "chunks-content-length"),
    "reset-mid-body-limit": _reads(_AGAIN, "chunks-content-length"),
    "gzip-close-mid-body": _reads(_AGAIN, "chunks-content-length"),
    "get-close-chunked": _reads(_AGAIN, "get-ok"),
    "get-truncated-close": _reads(_AGAIN, "get-ok"),
    "close-mid-body-after-event": differs(_AGAIN, requests=2, waits=()),
    "close-mid-body-range-206": _refused("reads: no byte ranges are asked for, and none are taken"),
    "http-206-unasked": _refused("reads: no byte ranges are asked for, and none are taken"),
    "duplicate-events": _once("duplicate-events"),
    "truncated-overlap": _once("truncated-overlap"),
    "date-int-ms-uint64": _reads(_NO_BIGINT, "date-tag1-float"),
    "end-bigint": _reads(_NO_BIGINT, "one-event"),
    "date-null": _refused("answers: null counts as absent, and a stored event has a time"),
    "date-true": _refused("answers: a bool is no instant"),
    "date-tag1-float-micros": differs(
        "answers: microseconds are kept, not rounded",
        members={"data.0.createdAt": datetime(2026, 11, 30, 2, 7, 36, 769_500, UTC)},
    ),
    "date-tag1-negative-big": differs(
        "answers: instants before 1901 are read as they are; the published client reads them wrongly",
        members={"data.0.createdAt": datetime(1901, 12, 13, 20, 45, 51, tzinfo=UTC)},
    ),
    "extra-meta-keys": differs(
        "answers: what eventData holds beyond the known fields is kept", members={"data.0.eventData.zzz": 1}
    ),
    "unknown-event-type": differs(
        "answers: a log may hold event types that are newer than this client", error=None
    ),
    "legacy-error-run_failed-cbor-message-only": _opaque("legacy-error-run_failed-cbor-message-only"),
    "legacy-error-run_failed-cbor-structured": _opaque("legacy-error-run_failed-cbor-structured"),
    "legacy-error-step_failed-cbor-structured": _opaque("legacy-error-step_failed-cbor-structured"),
    "legacy-error-step_retrying-cbor-structured": _opaque("legacy-error-step_retrying-cbor-structured"),
    "preload-no-run": differs(
        "answers: the log of a run is not asked for by hook_received, so a framed answer is malformed",
        error=ProtocolError,
        returned=None,
        outcome="unknown",
        **RESENT,
    ),
    "started-close-no-events": _CUT_START,
    "started-truncated-no-events": _CUT_START,
    "started-no-run_created": _NO_LIFECYCLE,
    "started-no-run_started": _NO_LIFECYCLE,
}
