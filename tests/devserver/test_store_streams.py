"""What every `Store` promises about streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eventclient.devserver.state import Changes
from eventclient.devserver.store import Store, StreamExpiredError, StreamPart, StreamQuery
from tests.devserver.api import AT, RUN
from tests.devserver.conftest import MakeStore
from tests.devserver.saved import OTHER, run, save


async def write(
    store: Store, *chunks: bytes, name: str = "s", run_id: str = RUN, close: bool = False
) -> bool:
    return await store.write_stream(run_id, name, chunks, close=close)


async def read(store: Store, name: str = "s", **query: Any) -> StreamPart:
    return await store.read_stream(StreamQuery(run_id=RUN, name=name, **query))


@pytest.mark.parametrize("start", [0, 3, -1, -3])
async def test_a_stream_nobody_wrote_to_is_open_and_empty(store: Store, start: int) -> None:
    assert await read(store, start=start) == StreamPart(max(0, start), (), 0, closed=False)
    assert await store.list_streams(RUN) == []


async def test_chunks_come_back_in_the_order_they_were_appended(store: Store) -> None:
    assert await write(store, b"a", b"", b"\x00b")
    assert await write(store, b"c" * 100_000)
    assert await read(store) == StreamPart(0, (b"a", b"", b"\x00b", b"c" * 100_000), 4, closed=False)


async def test_a_closed_stream_takes_nothing_more(store: Store) -> None:
    assert await write(store, b"a")
    assert await write(store, b"b", close=True)
    closed = StreamPart(0, (b"a", b"b"), 2, closed=True)
    assert await read(store) == closed
    assert not await write(store, b"c")
    assert not await write(store, close=True)
    assert await read(store) == closed


async def test_a_stream_can_be_closed_before_anything_is_written(store: Store) -> None:
    assert await write(store, close=True)
    assert await read(store) == StreamPart(0, (), 0, closed=True)
    assert not await write(store, b"a")


async def test_a_write_of_nothing_makes_an_open_stream(store: Store) -> None:
    assert await write(store)
    assert await read(store) == StreamPart(0, (), 0, closed=False)
    assert await store.list_streams(RUN) == ["s"]


@pytest.mark.parametrize(
    ("query", "start", "chunks"),
    [
        ({}, 0, b"abcde"),
        ({"start": 2}, 2, b"cde"),
        ({"start": 5}, 5, b""),
        ({"start": 9}, 9, b""),
        ({"start": -1}, 4, b"e"),
        ({"start": -5}, 0, b"abcde"),
        ({"start": -9}, 0, b"abcde"),
        ({"limit": 2}, 0, b"ab"),
        ({"start": 1, "limit": 3}, 1, b"bcd"),
        ({"start": -2, "limit": 1}, 3, b"d"),
        ({"start": 4, "limit": 100}, 4, b"e"),
    ],
)
async def test_a_part_of_a_stream_is_read(
    store: Store, query: dict[str, Any], start: int, chunks: bytes
) -> None:
    await write(store, b"a", b"b")
    await write(store, b"c", b"d", b"e")
    await write(store, b"other", name="other")
    part = await read(store, **query)
    assert part == StreamPart(start, tuple(bytes([each]) for each in chunks), 5, closed=False)


async def test_streams_are_listed_in_the_order_in_which_they_came_to_be(store: Store) -> None:
    for name in ("b", "c", "a", "b"):
        await write(store, b"x", name=name)
    await write(store, b"x", name="theirs", run_id=OTHER)
    assert await store.list_streams(RUN) == ["b", "c", "a"]
    assert await store.list_streams(OTHER) == ["theirs"]
    assert await store.list_streams("nobody") == []


async def test_streams_of_the_same_name_belong_to_their_runs(store: Store) -> None:
    await write(store, b"mine")
    await write(store, b"theirs", run_id=OTHER, close=True)
    assert await read(store) == StreamPart(0, (b"mine",), 1, closed=False)


async def test_any_name_is_a_name_of_a_stream(store: Store) -> None:
    names = ["", "nul\0", "#1", "\u00e9\U0001f600", "x" * 5000, "x" * 5001, "a/b", "A", "a"]
    for name in names:
        await write(store, name.encode(), name=name)
    assert await store.list_streams(RUN) == names
    assert [(await read(store, name=name)).chunks for name in names] == [(name.encode(),) for name in names]


async def test_what_is_appended_at_once_stays_together(store: Store) -> None:
    await append_at_once([store])


async def test_what_several_processes_append_stays_together(make_shared_store: MakeStore) -> None:
    stores = [make_shared_store() for _ in range(3)]
    for each in stores:
        await each.open()
    await append_at_once(stores)
    for each in stores:
        await each.aclose()


async def append_at_once(stores: list[Store]) -> None:
    writes = [[b"%d-%d" % (number, part) for part in range(1 + number % 3)] for number in range(60)]
    written = await asyncio.gather(
        *(write(stores[number % len(stores)], *chunks) for number, chunks in enumerate(writes))
    )
    assert all(written)
    part = await read(stores[0])
    left = {tuple(chunks) for chunks in writes}
    rest = part.chunks
    while rest:
        number, _, _ = rest[0].partition(b"-")
        together = tuple(writes[int(number)])
        assert rest[: len(together)] == together
        left.remove(together)
        rest = rest[len(together) :]
    assert left == set()
    assert part.chunk_count == len(part.chunks)


async def end(store: Store, run_id: str = RUN) -> None:
    """End a run that keeps nothing."""
    ended = run(run_id, status="completed", completedAt=AT, expiredAt=AT, input=None)
    await save(store, Changes(run=ended, last_slot=0, purge=True))


async def test_the_streams_of_a_run_that_has_expired_take_nothing(store: Store) -> None:
    await write(store, b"a")
    await end(store)
    for name in ("s", "new"):
        for chunks, close in (([b"b"], False), ([b"b"], True), ([], True)):
            with pytest.raises(StreamExpiredError) as caught:
                await write(store, *chunks, name=name, close=close)
            assert caught.value.expired_at == AT
    assert await store.list_streams(RUN) == ["s"]
    assert await read(store) == StreamPart(0, (), 0, closed=True)
    assert await write(store, b"theirs", run_id=OTHER)


async def test_the_streams_of_a_run_that_has_ended_and_keeps_its_data_go_on(store: Store) -> None:
    await write(store, b"a")
    await save(store, Changes(run=run(status="failed", completedAt=AT), last_slot=0))
    assert await write(store, b"b", close=True)
    assert not await write(store, b"c")
    assert await write(store, b"n", name="new")
    assert await read(store) == StreamPart(0, (b"a", b"b"), 2, closed=True)
    assert (await read(store, name="new")).chunks == (b"n",)


async def test_nothing_is_left_of_what_is_written_while_a_run_expires(make_shared_store: MakeStore) -> None:
    stores = [make_shared_store() for _ in range(3)]
    for each in stores:
        await each.open()
    for attempt in range(10):
        run_id = f"r{attempt}"
        await save(stores[0], Changes(run=run(run_id), last_slot=0))
        writes = [
            write(stores[number % 3], b"x", name=f"s{number}", run_id=run_id) for number in range(attempt, 12)
        ]
        results = await asyncio.gather(end(stores[0], run_id), *writes, return_exceptions=True)
        assert {type(result) for result in results[1:]} <= {bool, StreamExpiredError}
        parts = [
            await stores[0].read_stream(StreamQuery(run_id=run_id, name=name))
            for name in await stores[0].list_streams(run_id)
        ]
        assert set(parts) <= {StreamPart(0, (), 0, closed=True)}
    for each in stores:
        await each.aclose()


async def test_one_of_those_who_close_at_once_closes(store: Store) -> None:
    closed = await asyncio.gather(*(write(store, b"%d" % number, close=True) for number in range(10)))
    assert sum(closed) == 1
    assert await read(store) == StreamPart(0, (b"%d" % closed.index(True),), 1, closed=True)


async def test_a_write_cancelled_at_any_point_is_whole_or_not_there(store: Store) -> None:
    for turns in range(10):
        task = asyncio.create_task(write(store, b"a", b"b", name=f"s{turns}", close=True))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await write(store, b"later", name="last")
    for turns in range(10):
        part = await read(store, name=f"s{turns}")
        assert part in (StreamPart(0, (), 0, closed=False), StreamPart(0, (b"a", b"b"), 2, closed=True))
