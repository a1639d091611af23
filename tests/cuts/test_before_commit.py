"""The request with a batch of 32 is cut at a byte, so that the server never has all of it: see `offsets`."""

from __future__ import annotations

import pytest

from eventclient import Outcome, TransportError
from eventclient.devserver.limits import Limits
from tests.cuts.batches import guarded_by_key
from tests.cuts.offsets import cuts, offsets, rounds, stride
from tests.cuts.stage import begin, check_attempts, check_told, stage
from tests.support.cutting_relay import Cut, Part

CUTS = 16
"""Most requests that are cut in one round, one after the other, before one passes."""
PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
async def test_half_a_request_has_no_effect_and_the_whole_one_has_it_once(part: int) -> None:
    async with stage(transient_retries=CUTS) as on:
        length = (await begin(on, "run")).request_bytes
        number = 1
        for number, chosen in enumerate(rounds(offsets(length), CUTS)[part::PARTS], 2):
            batch = guarded_by_key(number)
            made = cuts(Part.REQUEST, chosen, number)
            ended = await on.write("run", batch.events, *made)
            assert [exchange.cut for exchange in ended.exchanges] == [*made, None]
            assert {exchange.request_bytes for exchange in ended.exchanges} == {length}
            assert {exchange.answer_bytes for exchange in ended.exchanges[:-1]} == {0}
            check_told(ended, batch)
        await check_attempts(on.store, "run", 9 * number)


async def test_cuts_on_both_sides_of_a_commit_are_told_as_one_write() -> None:
    async with stage(transient_retries=4) as on:
        first = await begin(on, "run")
        number = 1
        for number, at in enumerate(stride(first.request_bytes, 331), 2):
            batch = guarded_by_key(number)
            made = (
                Cut(Part.REQUEST, at),
                Cut(Part.ANSWER, at, reset=True),
                Cut(Part.REQUEST, first.request_bytes, reset=True),
                Cut(Part.ANSWER, first.answer_bytes),
            )
            ended = await on.write("run", batch.events, *made)
            assert [exchange.cut for exchange in ended.exchanges] == [*made, None]
            check_told(ended, batch)
        await check_attempts(on.store, "run", 9 * number)


async def test_when_no_request_gets_through_nothing_is_claimed() -> None:
    async with stage(transient_retries=2) as on:
        first = await begin(on, "run")
        batch = guarded_by_key(2)
        for at in (0, 1, 300, first.request_bytes // 2, first.request_bytes - 1):
            ended = await on.write("run", batch.events, *[Cut(Part.REQUEST, at)] * 3)
            assert isinstance(ended.error, TransportError)
            assert ended.error.ambiguous
            assert set(ended.outcomes) == {Outcome.UNKNOWN}
            assert ended.rows == []
        # Whoever writes the same afterwards is not held up.
        check_told(await on.write("run", batch.events), batch)


async def test_a_request_that_comes_too_slowly_is_refused_and_says_nothing_of_an_earlier_one() -> None:
    """The server gives it up before it has seen its key. It does so in real time."""
    async with stage(limits=Limits(header_timeout_s=0.25, body_timeout_s=0.25)) as on:
        first = await begin(on, "run")
        for number, at in enumerate((100, first.request_bytes // 2), 2):
            slow = Cut(Part.REQUEST, at, held=True)
            batch = guarded_by_key(number)
            refused = await on.write("run", batch.events, slow)
            assert (set(refused.outcomes), refused.rows) == ({Outcome.REJECTED}, [])
            doubtful = await on.write("run", batch.events, Cut(Part.ANSWER, 300), slow)
            assert [receipt.status for receipt in doubtful.receipts] == [408] * len(batch.events)
            assert (set(doubtful.outcomes), doubtful.rows) == ({Outcome.UNKNOWN}, batch.rows)
        await check_attempts(on.store, "run", 9 * number)
