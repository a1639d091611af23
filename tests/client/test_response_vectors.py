"""What our client makes of every answer that the published JavaScript client was given."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import vectors
from tests.support.assertions import assert_same_end
from tests.support.expectations import End, expected_end, idle_rows
from tests.support.playing import Played, play
from tests.support.response_differences import DIFFERENCES

CASES: Final = vectors.names("responses")


def test_every_difference_is_one() -> None:
    assert idle_rows("responses", DIFFERENCES) == []


@pytest.mark.parametrize("name", CASES)
async def test_ends_as_it_has_to(name: str) -> None:
    case = vectors.load("responses", name)
    end = expected_end(case, DIFFERENCES)
    played = await play(case)
    assert_same_end(played, end, case)
    if end.fell_back:
        assert_fell_back(played, end)
    else:
        assert len(played.compared) == end.requests
        assert played.identical_bodies


def assert_fell_back(played: Played, end: End) -> None:
    """Every event of the refused batch went as a single post, in order, and met the same refusal."""
    batches, singles = played.requests[: end.requests], played.requests[end.requests :]
    assert {request.path.rsplit("/", 1)[1] for request in batches} == {"batch"}
    kinds = [receipt.event.event_type for receipt in played.receipts]
    assert [request.path.rsplit("/", 1)[1] for request in singles] == kinds
    for receipt in played.receipts:
        assert (receipt.via, receipt.outcome, receipt.status) == ("single", "rejected", end.status)
