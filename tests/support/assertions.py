"""What has to hold when our client has played a captured case."""

from __future__ import annotations

from typing import Any

from eventclient import EventClientError, Log, Receipt, RejectedError, StoredEvent, TransportError

from .expectations import End, entity_differs, waits_differ
from .playing import READS, Played
from .scripts import told


def assert_same_end(played: Played, end: End, case: dict[str, Any]) -> None:
    """Error, waits and whatever came back are those of `end`."""
    assert_same_error(played.error, end, case)
    assert waits_differ(played.clock.sleeps, end.waits) is None
    if case["call"]["method"] in READS:
        if end.returned is not None:
            assert_same_read(played.value, end.returned)
        return
    assert played.receipts
    for receipt in played.receipts:
        # Entities are built when they are asked for: none of them may turn out not to be one.
        _ = (receipt.stored, receipt.run, receipt.step, receipt.hook, receipt.wait)
    if end.outcome is not None:
        assert {receipt.outcome for receipt in played.receipts} == {end.outcome}
    elif end.returned is not None:
        assert_same_receipts(played.receipts, end.returned)


def assert_same_error(error: EventClientError | None, end: End, case: dict[str, Any]) -> None:
    assert type(error) is (end.error or type(None)), error
    if isinstance(error, TransportError) and case["call"]["method"] not in READS:
        assert error.ambiguous == (end.outcome == "unknown")
    if not isinstance(error, RejectedError | TransportError):
        return
    assert end.status in (None, error.status)
    if isinstance(error, RejectedError):
        assert error.code == end.code
        assert (told(case, "message") or "") in error.message
        measured = case["observed"]["threw"].get("retryAfter")
        assert measured is None or error.retry_after == max(1, measured)


def assert_same_receipts(receipts: tuple[Receipt, ...], returned: dict[str, Any]) -> None:
    single = "results" not in returned
    items = [returned | {"status": 200}] if single else returned["results"]
    assert len(receipts) == len(items)
    for receipt, item in zip(receipts, items, strict=True):
        assert receipt.status == item["status"]
        if item["status"] != 200:
            assert (receipt.code, receipt.message) == (item["error"], item["message"])
            continue
        assert receipt.outcome == "created"
        for key, entity in (
            ("event", receipt.stored),
            ("run", receipt.run),
            ("step", receipt.step),
            ("hook", receipt.hook),
            ("wait", receipt.wait),
        ):
            if key in item:
                assert entity_differs(entity, item[key]) is None, key
        if single:
            assert receipt.step_created == item.get("stepCreated", False)
            assert receipt.max_events == item.get("maxEvents")
            if "events" in item:
                assert_same_log(receipt.log, item)


def assert_same_read(value: StoredEvent | Log | None, returned: Any) -> None:
    if isinstance(value, Log):
        assert_same_log(value, returned)
    else:
        assert entity_differs(value, returned) is None


def assert_same_log(log: Log | None, page: dict[str, Any]) -> None:
    assert log is not None
    assert (log.cursor, log.has_more) == (page["cursor"], page["hasMore"])
    if "data_count" in page:
        # The longest logs are kept as a summary.
        ids = [event.event_id for event in log.events]
        summary = (page["data_count"], page["first_event_id"], page["last_event_id"])
        assert (len(ids), ids[0], ids[-1]) == summary
        return
    events = page["data"] if "data" in page else page["events"]
    assert len(log.events) == len(events)
    for ours, theirs in zip(log.events, events, strict=True):
        assert entity_differs(ours, theirs) is None
