"""What a server answers, in bytes."""

from __future__ import annotations

import pytest

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.codec import decode
from eventclient.wire.frames import decode_frames
from eventclient.wire.replies import (
    LogPart,
    Refused,
    Written,
    encode_end_frame,
    encode_event_frame,
    encode_results,
    encode_written,
)
from eventclient.wire.stored import (
    encode_event,
    event_map,
)
from tests.wire.samples import BARE, EVENT, HOOK, RUN, STEP, WAIT, row


def test_an_event_frame_carries_the_payload_in_its_body() -> None:
    meta = encode_event(EVENT, resolve=False)
    frames = decode_frames(encode_event_frame(meta, b"in") + encode_event_frame(meta, b"in", resolve=False))
    assert [frame.meta for frame in frames] == [event_map(EVENT, resolve=False)] * 2
    assert [frame.body for frame in frames] == [b"in", b""]


def test_control_frames() -> None:
    stream = b"".join(
        [
            encode_end_frame("eid:x", has_more=True),
            encode_end_frame(None, has_more=False),
        ]
    )
    assert [(frame.meta, frame.body) for frame in decode_frames(stream)] == [
        ({"_end": 1, "next": "eid:x", "hasMore": True}, b""),
        ({"_end": 1, "hasMore": False}, b""),
    ]


def test_a_bare_answer_holds_the_event_alone() -> None:
    assert decode(encode_written(Written(row(BARE)), resolve=True)) == {"event": event_map(BARE)}


def test_a_full_answer_holds_everything_under_its_name() -> None:
    written = Written(
        row(EVENT),
        run=Run.read(RUN),
        step=Step.read(STEP),
        hook=Hook.read(HOOK),
        wait=Wait.read(WAIT),
        step_created=True,
        max_events=25000,
        log=LogPart((row(EVENT), row(BARE)), "eid:x", has_more=False),
    )
    expected = {
        "event": event_map(EVENT),
        "run": RUN,
        "step": STEP,
        "hook": HOOK,
        "wait": WAIT,
        "stepCreated": True,
        "maxEvents": 25000,
        "events": [event_map(EVENT), event_map(BARE)],
        "cursor": "eid:x",
        "hasMore": False,
    }
    assert decode(encode_written(written, resolve=True)) == expected
    lazy = decode(encode_written(written, resolve=False))
    assert lazy["event"]["eventData"] == {"stepName": "n"}
    assert "input" not in lazy["step"]
    # The log part feeds a replay.
    assert lazy["events"] == expected["events"]


def test_a_report_has_a_null_cursor() -> None:
    written = Written(row(BARE), log=LogPart((), None, has_more=True))
    value = decode(encode_written(written, resolve=True))
    assert (value["events"], value["cursor"], value["hasMore"]) == ([], None, True)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 300])
def test_a_batch_answer_has_one_result_for_each(count: int) -> None:
    refused = Refused(409, "conflict", "was there before")
    results = [Written(row(EVENT)) if index % 2 else refused for index in range(count)]
    items = decode(encode_results(results, [index % 3 == 0 for index in range(count)]))["results"]
    assert len(items) == count
    for index, item in enumerate(items):
        if index % 2:
            assert item == {"status": 200, "event": event_map(EVENT, resolve=index % 3 == 0)}
        else:
            assert item == {"status": 409, "error": "conflict", "message": "was there before"}


def test_a_batch_answer_needs_a_word_about_payloads_for_each() -> None:
    with pytest.raises(ValueError, match="shorter"):
        encode_results([Written(row(EVENT))], [])
