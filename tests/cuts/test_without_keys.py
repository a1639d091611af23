"""The same cuts before a server that honours no keys: what the log says settles what can be settled.

Whatever was executed once is refused when it is executed again, so a batch that converges is sent again, and
whose its conflicts are is read back. A batch that does not converge is not sent again.
"""

from __future__ import annotations

import pytest

from eventclient import Outcome, TransportError
from tests.cuts.batches import Batch, convergent, guarded_by_key, prepared, row_of, run_started
from tests.cuts.offsets import cuts, offsets, rounds, stride
from tests.cuts.stage import Ended, Stage, begin, check_told, stage
from tests.support.cutting_relay import Cut, Exchange, Part

CUTS = 4
"""Most answers that are cut in one round: the first one, and those that tell of conflicts."""
FIRST, LAST, STEP = 320, 64, 83
"""Fewer offsets than where keys are honoured: a round takes a run of its own, and four requests or more."""


async def make_run(on: Stage, number: int) -> tuple[str, Batch]:
    """A run of its own, and the batch for it. All of them are of one length."""
    run = f"run_{number:05d}"
    await on.client.create(run, run_started())
    ready = await on.write(run, prepared())
    assert ready.error is None
    return run, convergent(run.encode())


def chosen(length: int) -> list[int]:
    return offsets(length, first=FIRST, last=LAST, step=STEP)


async def uncut(on: Stage) -> Exchange:
    """What goes over the wire for a batch when nothing is cut."""
    run, batch = await make_run(on, 0)
    whole = await on.write(run, batch.events)
    check_told(whole, batch)
    return whole.exchanges[0]


@pytest.mark.parametrize("part", range(2))
async def test_behind_a_lost_answer_conflicts_are_told_apart_by_the_log(part: int) -> None:
    async with stage(keys=False, transient_retries=CUTS) as on:
        length = (await uncut(on)).answer_bytes
        for number, few in enumerate(rounds(chosen(length), CUTS)[part::2], 1):
            run, batch = await make_run(on, number)
            ended = await on.write(run, batch.events, *cuts(Part.ANSWER, few, number))
            assert methods(ended) == [b"POST"] * (len(few) + 1) + [b"GET"]
            assert ended.exchanges[0].answer_bytes == length
            check_told(ended, batch, Outcome.ALREADY_APPLIED)
            assert all(receipt.stored for receipt in ended.receipts if not batch.is_taken(receipt.index))


def methods(ended: Ended) -> list[bytes]:
    return [exchange.first_line.partition(b" ")[0] for exchange in ended.exchanges]


async def test_behind_requests_that_were_cut_what_is_taken_is_created() -> None:
    async with stage(keys=False, transient_retries=16) as on:
        length = (await uncut(on)).request_bytes
        for number, few in enumerate(rounds(chosen(length), 16), 1):
            run, batch = await make_run(on, number)
            ended = await on.write(run, batch.events, *cuts(Part.REQUEST, few, number))
            # The read settles whose the steps are that somebody else has taken.
            assert methods(ended) == [b"POST"] * (len(few) + 1) + [b"GET"]
            assert ended.exchanges[0].request_bytes == length
            check_told(ended, batch)


async def length_of_log(on: Stage) -> int:
    """How long the answer is in which a log is read back."""
    run, batch = await make_run(on, 0)
    ended = await on.write(run, batch.events, Cut(Part.ANSWER, 0))
    assert methods(ended) == [b"POST", b"POST", b"GET"]
    return ended.exchanges[-1].answer_bytes


async def test_when_the_log_is_cut_too_it_is_read_on_and_nothing_is_told_wrong() -> None:
    async with stage(keys=False, transient_retries=1, read_backoff_s=0.001) as on:
        for number, at in enumerate(stride(await length_of_log(on), 101), 1):
            run, batch = await make_run(on, number)
            ended = await on.write(run, batch.events, Cut(Part.ANSWER, 0), None, Cut(Part.ANSWER, at))
            assert [exchange.cut is None for exchange in ended.exchanges] == [False, True, False, True]
            check_told(ended, batch, Outcome.ALREADY_APPLIED)


async def test_a_log_that_cannot_be_read_whole_tells_nothing() -> None:
    async with stage(keys=False, transient_retries=1, read_retries=0) as on:
        for number, at in enumerate(stride(await length_of_log(on), 401), 1):
            run, batch = await make_run(on, number)
            # Where some events came the log is read on behind them, and that is cut just so.
            ended = await on.write(run, batch.events, Cut(Part.ANSWER, 0), None, *[Cut(Part.ANSWER, at)] * 20)
            assert all(exchange.cut for exchange in ended.exchanges[2:])
            assert set(ended.outcomes) == {Outcome.UNKNOWN}
            assert ended.rows == batch.rows


async def test_what_somebody_else_wrote_alike_is_not_taken_for_ours() -> None:
    """The server keeps no instant but its own, so it cannot be told whose it is."""
    async with stage(keys=False) as on:
        for number, at in enumerate((0, 200, 1000), 1):
            run, batch = await make_run(on, number)
            twin = batch.events[-2]
            assert (await on.write(run, [twin])).outcomes == [Outcome.CREATED]
            on.clock.advance(1)
            ended = await on.write(run, batch.events, *cuts(Part.ANSWER, [at], number))
            assert ended.rows == [row for row in batch.rows if row != row_of(twin)]
            assert ended.outcomes[:2] == [Outcome.CONFLICT] * 2
            assert set(ended.outcomes[2:-2]) == {ended.outcomes[-1]} == {Outcome.ALREADY_APPLIED}
            assert ended.outcomes[-2] == Outcome.UNKNOWN


@pytest.mark.parametrize("part", range(2))
async def test_what_does_not_converge_is_unknown_and_not_sent_again(part: int) -> None:
    async with stage(keys=False) as on:
        length = (await begin(on, "run")).answer_bytes
        number = 1
        for number, at in enumerate(chosen(length)[part::2], 2):
            batch = guarded_by_key(number)
            ended = await on.write("run", batch.events, Cut(Part.ANSWER, at, reset=number % 2 == 1))
            assert len(ended.exchanges) == 1
            assert isinstance(ended.error, TransportError)
            assert ended.error.ambiguous
            assert set(ended.outcomes) == {Outcome.UNKNOWN}
            assert ended.rows == batch.rows


async def test_nor_is_it_when_the_request_was_cut() -> None:
    async with stage(keys=False) as on:
        length = (await begin(on, "run")).request_bytes
        batch = guarded_by_key(2)
        for number, at in enumerate(chosen(length)):
            ended = await on.write("run", batch.events, Cut(Part.REQUEST, at, reset=number % 2 == 1))
            assert len(ended.exchanges) == 1
            assert set(ended.outcomes) == {Outcome.UNKNOWN}
            assert ended.rows == []
        check_told(await on.write("run", batch.events), batch)
