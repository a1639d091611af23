"""Which events go to the client in one call."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.event_specs import is_pair
from eventclient.model.parsing import parse_event
from eventclient.recordings.order import Posting
from eventclient.recordings.rows import RecordedRow
from eventclient.replay.stretches import MAX_STRETCH_EVENTS, stretches


def posting(kind: str, key: str = "step_a", resume_id: str | None = None) -> Posting:
    data: dict[str, Any] = {"step_created": {"stepName": "s"}}.get(kind, {})
    event = parse_event({"eventType": kind, "correlationId": key, "eventData": data})
    return Posting(event, RecordedRow(Path("x"), "wrun_1", "evnt_1", kind, {}), resume_id)


KINDS = st.sampled_from(["step_created", "step_started", "step_completed", "resumed"])


@given(st.lists(KINDS), st.integers(1, 5))
def test_nothing_is_lost_doubled_or_moved(kinds: list[str], most: int) -> None:
    postings = [
        posting("hook_received", "hook_a", str(at)) if kind == "resumed" else posting(kind)
        for at, kind in enumerate(kinds)
    ]
    cut = list(stretches(postings, most))
    assert [item for stretch in cut for item in stretch] == postings
    for stretch in cut:
        assert len(stretch) == 1 or all(item.resume_id is None for item in stretch)
        # One more than the most only to keep a pair whole.
        assert len(stretch) <= most + 1
        if len(stretch) > most:
            assert is_pair(stretch[-2].event, stretch[-1].event)
    for before, after in pairwise(cut):
        assert not is_pair(before[-1].event, after[0].event)


@pytest.mark.parametrize(
    ("count", "calls"), [(0, 0), (1, 1), (MAX_STRETCH_EVENTS, 1), (MAX_STRETCH_EVENTS + 1, 2)]
)
def test_how_many_calls(count: int, calls: int) -> None:
    assert len(list(stretches([posting("step_completed")] * count))) == calls
