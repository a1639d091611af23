"""The answer to a batch of 32 is cut at a byte, after the batch was committed: see `offsets` for which.

Where the server honours keys, what is sent again gets the recorded answer.
"""

from __future__ import annotations

import pytest

from eventclient import Outcome
from tests.cuts.batches import guarded_by_key
from tests.cuts.offsets import cuts, offsets, rounds, stride
from tests.cuts.stage import Stage, begin, check_attempts, check_told, stage
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


async def test_a_client_that_has_heard_nothing_of_the_server_asks_it_once() -> None:
    """The batch is its first request, and it is not safe to send twice but where keys are honoured."""
    async with stage() as on:
        length = (await begin(on, "run")).answer_bytes
        number = 1
        for number, at in enumerate(stride(length, 331), 2):
            batch = guarded_by_key(number)
            async with on.newcomer() as fresh:
                ended = await fresh.write("run", batch.events, Cut(Part.ANSWER, at, reset=number % 2 == 1))
            told = [exchange.first_line.partition(b" ")[0] for exchange in ended.exchanges]
            assert told == [b"POST", b"GET", b"POST"]
            check_told(ended, batch)
        await check_attempts(on.store, "run", 9 * number)


async def test_when_that_question_is_cut_the_batch_is_unknown_and_not_sent_again() -> None:
    async with stage() as on:
        await begin(on, "run")
        length, number = await length_of_question(on), 2
        for number, at in enumerate(stride(length, 17), 3):
            batch = guarded_by_key(number)
            made = cuts(Part.ANSWER, [100, at], number)
            async with on.newcomer() as fresh:
                ended = await fresh.write("run", batch.events, *made)
            assert [exchange.cut for exchange in ended.exchanges] == made
            assert set(ended.outcomes) == {Outcome.UNKNOWN}
            assert ended.rows == batch.rows
        await check_attempts(on.store, "run", 9 * number)


async def length_of_question(on: Stage) -> int:
    """How long the answer is in which a server says whether it honours keys; takes the second round."""
    async with on.newcomer() as fresh:
        ended = await fresh.write("run", guarded_by_key(2).events, Cut(Part.ANSWER, 100))
    return ended.exchanges[1].answer_bytes
