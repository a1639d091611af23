"""The answer to a batch of 32 is cut at a byte, after the batch was committed: see `offsets` for which.

Where the server honours keys, what is sent again gets the recorded answer.
"""

from __future__ import annotations

import pytest

from eventclient import Outcome
from tests.cuts.batches import guarded_by_key
from tests.cuts.offsets import cuts, offsets, rounds, stride
from tests.cuts.stage import begin, check_attempts, check_told, stage
from tests.support.cutting_relay import Cut, Part

CUTS = 16
"""Most answers that are cut in one round: the first one and its repetitions."""
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
async def test_whatever_is_cut_the_batch_happens_once_and_is_told_as_created(part: int) -> None:
    async with stage(transient_retries=CUTS) as on:
        length = (await begin(on, "run")).answer_bytes
        number = 1
        for number, chosen in enumerate(rounds(offsets(length), CUTS)[part::PARTS], 2):
            batch = guarded_by_key(number)
            made = cuts(Part.ANSWER, chosen, number)
            ended = await on.write("run", batch.events, *made)
            assert [exchange.cut for exchange in ended.exchanges] == [*made, None]
            assert ended.exchanges[0].answer_bytes == length
            check_told(ended, batch)
        await check_attempts(on.store, "run", 9 * number)


async def test_a_client_that_has_heard_nothing_of_the_server_learns_from_what_came() -> None:
    """The batch is its first request, and it is not safe to send twice but where keys are honoured. That is
    in the headers of the answer: it is told by what is cut behind them, and not by what is cut before."""
    async with stage() as on:
        length = (await begin(on, "run")).answer_bytes
        number = 1
        told = set()
        for number, at in enumerate([*range(0, 400, 23), *stride(length, 331)], 2):
            batch = guarded_by_key(number)
            async with on.newcomer() as fresh:
                ended = await fresh.write("run", batch.events, Cut(Part.ANSWER, at, reset=number % 2 == 1))
            posts = len(ended.exchanges)
            told.add(posts)
            if posts == 1:
                assert set(ended.outcomes) == {Outcome.UNKNOWN}
                assert ended.rows == batch.rows
            else:
                check_told(ended, batch)
        assert told == {1, 2}
        await check_attempts(on.store, "run", 9 * number)
