"""A log that stops early is read on, or is an error; it is never taken for complete."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient import EventClientError, TransportError
from tests.support.scripted_server import Fault, Reply

from .answers import end_frame, log_reply
from .pages import cursor, cursors, cut, frames, page, pages_of, slots_of
from .samples import RUN
from .stage import stage


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ([cut(1, 2), page(3)], [None, cursor(2)]),
        ([cut(1), cut(2), page(3)], [None, cursor(1), cursor(2)]),
        ([log_reply(frames(1, 2) + frames(3)[:-1]), page(3)], [None, cursor(2)]),
        # Begun again from the start: each event is told once all the same.
        ([cut(1, 2), page(1, 2, 3)], [None, cursor(2)]),
        (
            [
                Reply(
                    headers=page(1).headers,
                    body=frames(1, 2, 3),
                    fault=Fault.CLOSE_MID_BODY,
                    fault_after=len(frames(1)) + 3,
                ),
                page(2, 3),
            ],
            [None, cursor(1)],
        ),
        (
            [
                Reply(
                    headers=page(1).headers,
                    body=frames(1, 2, 3),
                    fault=Fault.CLOSE_MID_CHUNKED,
                    fault_after=len(frames(1, 2)),
                ),
                page(3),
            ],
            [None, cursor(2)],
        ),
    ],
)
async def test_a_cut_log_is_read_on_behind_its_last_event(
    script: list[Reply], asked: list[str | None]
) -> None:
    async with stage(script) as it:
        assert await slots_of(it) == [1, 2, 3]
        assert cursors(it) == asked
        assert it.clock.sleeps == []


@pytest.mark.parametrize(
    ("script", "requests"),
    [
        ([cut(1), cut(2), cut(3)], 3),
        ([cut(1), log_reply(b"")], 2),
        ([cut(1), cut(1)], 2),
        ([log_reply(b"")], 1),
        ([log_reply(frames(1)[:9])], 1),
        ([log_reply(b"\x00\x00")], 1),
    ],
    ids=["three times", "nothing behind", "the same again", "nothing", "half a frame", "half a length"],
)
async def test_a_log_that_stays_cut_is_an_error(script: list[Reply], requests: int) -> None:
    async with stage(script) as it:
        with pytest.raises(TransportError, match="broke off") as raised:
            await it.client.read_log(RUN)
        assert raised.value.ambiguous is False
        assert raised.value.run_id == RUN
        assert len(it.server.requests) == requests


@pytest.mark.parametrize("options", [{"limit": 5}, {"sort_order": "desc"}, {"correlation_id": "c"}])
async def test_a_cut_page_that_cannot_be_read_on_is_an_error(options: dict[str, Any]) -> None:
    async with stage([cut(1, 2)]) as it:
        with pytest.raises(TransportError, match="broke off"):
            await pages_of(it, **options)


async def test_every_cut_is_seen() -> None:
    whole = frames(1, 2) + end_frame(cursor(2))
    for size in range(0, len(whole), 7):
        async with stage([log_reply(whole[:size])]) as it:
            with pytest.raises(EventClientError):
                await it.client.read_log(RUN)
