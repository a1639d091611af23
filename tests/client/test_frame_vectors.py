"""What our client makes of every framed log that the published JavaScript client was given."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import vectors
from tests.support.assertions import assert_same_end
from tests.support.expectations import expected_end, idle_rows
from tests.support.frame_differences import DIFFERENCES
from tests.support.playing import play

CASES: Final = vectors.names("frames")


def test_every_difference_is_one() -> None:
    assert idle_rows("frames", DIFFERENCES) == []


@pytest.mark.parametrize("name", CASES)
async def test_ends_as_it_has_to(name: str) -> None:
    case = vectors.load("frames", name)
    end = expected_end(case, DIFFERENCES)
    played = await play(case)
    assert_same_end(played, end, case)
    assert len(played.requests) == end.requests
    if end == expected_end(case, {}):
        for seen, line in zip(played.requests, case["observed"].get("request_lines", ()), strict=False):
            assert f"{seen.method} {seen.target}" == line
