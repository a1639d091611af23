"""What every `Store` promises when many change the same things at once, and when some of them die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventclient.devserver.engine import Engine
from eventclient.devserver.state import Changes, Claim, LogQuery, State, Wanted
from eventclient.devserver.store import (
    Decision,
    HookQuery,
    RunQuery,
    StepQuery,
    Store,
    StreamPart,
    StreamQuery,
)
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Written
from tests.devserver.api import AT, RUN
from tests.devserver.conftest import MakeStore
from tests.devserver.saved import EVERYTHING, OTHER, load, row, run, save, step
from tests.support.fake_clock import FakeClock

ROOT = Path(__file__).parent.parent.parent
WRITERS = 16
CHANGES = 20


@pytest.fixture
async def stores(make_shared_store: MakeStore) -> AsyncIterator[list[Store]]:
    """Three stores that share what they keep."""
    stores = [make_shared_store() for _ in range(3)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.aclose()


def append(names: list[str], state: State) -> Decision[list[int]]:
    """Append an event and a step for each of `names`; the answer is their slots."""
    slots = [state.last_slot + 1 + index for index in range(len(names))]
    changes = Changes(
        run=run(),
        last_slot=slots[-1],
        steps={name: step(name) for name in names},
        events=tuple(
            row(slot, "step_created", correlationId=name) for slot, name in zip(slots, names, strict=True)
        ),
    )
    return Decision(slots, changes)


async def write_many(store: Store, writer: str) -> dict[str, int]:
    """One change after the other; the slot of each event."""
    slots: dict[str, int] = {}
    for number in range(CHANGES):
        names = [f"{writer}-{number}-{index}" for index in range(1 + number % 3)]
        wanted = Wanted(run_id=RUN, steps=frozenset(names))
        answer = await store.change(wanted, partial(append, names))
        slots.update(zip(names, answer, strict=True))
    return slots


async def read_slots(store: Store) -> dict[str, int]:
    """The slot of each event of a log that is dense and tells nothing twice."""
    rows = await store.read_log(LogQuery(run_id=RUN)) or []
    assert [row.slot for row in rows] == list(range(1, len(rows) + 1))
    slots = {row.event().correlation_id or "": row.slot for row in rows}
    assert len(slots) == len(rows)
    return slots


async def race(stores: list[Store]) -> None:
    writers = [write_many(stores[number % len(stores)], f"w{number}") for number in range(WRITERS)]
    answered: dict[str, int] = {}
    for slots in await asyncio.gather(*writers):
        answered |= slots
    for store in stores:
        assert await read_slots(store) == answered
        assert (await load(store)).last_slot == len(answered)
        listed = await store.read_steps(StepQuery(run_id=RUN, limit=10_000))
        assert [each.entity.step_id for each in listed] == sorted(answered, key=lambda name: answered[name])


async def test_many_writers_of_one_run_leave_a_dense_log(store: Store) -> None:
    await race([store])


async def test_many_writers_in_several_processes_leave_a_dense_log(stores: list[Store]) -> None:
    await race(stores)


async def test_a_reader_sees_a_log_that_only_grows_by_whole_changes(stores: list[Store]) -> None:
    writing = asyncio.gather(*(write_many(stores[number % 2], f"w{number}") for number in range(4)))
    seen: list[int] = [0]
    while not writing.done():
        slots = await read_slots(stores[2])
        whole = [name for name in slots if name.endswith("-0")]
        for name in whole:
            writer, number, _ = name.split("-")
            parts = [slots.get(f"{writer}-{number}-{index}") for index in range(1 + int(number) % 3)]
            assert parts == [slots[name] + index for index in range(len(parts))]
        assert len(slots) >= seen[-1]
        seen.append(len(slots))
        await asyncio.sleep(0)
    assert seen[-1] <= len(await read_slots(stores[2])) == sum(map(len, await writing))


async def test_a_key_is_used_once_whoever_comes_first(stores: list[Store]) -> None:
    def use(state: State) -> Decision[bool]:
        if "key" in state.claims:
            return Decision(False)
        slot = state.last_slot + 1
        claims = {"key": Claim(slot)}
        return Decision(True, Changes(run=run(), last_slot=slot, claims=claims, events=(row(slot),)))

    wanted = Wanted(run_id=RUN, claims=frozenset({"key"}))
    used = await asyncio.gather(*(stores[number % 3].change(wanted, use) for number in range(12)))
    assert sum(used) == 1
    assert (await load(stores[0], claims=["key"])).claims == {"key": Claim(1)}


async def test_a_purge_leaves_nothing_of_what_is_written_to_a_stream_meanwhile(stores: list[Store]) -> None:
    for attempt in range(10):
        name, query = f"r{attempt}", StreamQuery(run_id=f"r{attempt}", name="s")
        await save(stores[0], Changes(run=run(name), last_slot=0))
        await stores[0].write_stream(name, "s", [b"before"], close=False)
        await asyncio.gather(
            save(stores[0], Changes(run=run(name), last_slot=0, purge=True)),
            *(stores[number % 3].write_stream(name, "s", [b"x"], close=False) for number in range(9)),
        )
        assert await stores[0].read_stream(query) == StreamPart(0, (), 0, closed=True)


# -- tokens ------------------------------------------------------------------------------------

CREATED = PostedEvent("run_created", {"deploymentId": "d", "workflowName": "w"}, b"", 7, occurred_at=AT)
ENDED = PostedEvent("run_completed", {}, b"", 7, occurred_at=AT)


def hook_created(name: str, token: str, **data: Any) -> PostedEvent:
    return PostedEvent("hook_created", {"token": token, **data}, b"", 7, name, AT)


async def contest(engines: list[Engine], name: str, token: str) -> list[str]:
    """Every run asks for the token at once; the types of the events that came of it."""
    answers = await asyncio.gather(
        *(engine.create(f"r{n}", hook_created(name, token)) for n, engine in enumerate(engines))
    )
    return [answer.row.event().event_type for answer in answers if isinstance(answer, Written)]


async def test_a_token_contested_in_several_processes_has_one_holder(stores: list[Store]) -> None:
    clock = FakeClock()
    engines = [Engine(store, clock) for store in stores]
    for number, engine in enumerate(engines):
        await engine.create(f"r{number}", CREATED)
    for attempt in range(8):
        kinds = await contest(engines, f"h{attempt}", f"t{attempt}")
        assert sorted(kinds) == ["hook_conflict", "hook_conflict", "hook_created"]
        (holder,) = await stores[0].read_hooks(HookQuery(token=f"t{attempt}", limit=9))
        assert holder.entity.run_id == f"r{kinds.index('hook_created')}"


async def test_a_token_that_was_let_go_has_one_new_holder(stores: list[Store]) -> None:
    """The old holder's run has ended and its token was retained until now: a newcomer may take it over."""
    clock = FakeClock()
    engines = [Engine(store, clock) for store in stores]
    for name in ("r0", "r1", "r2", *(f"old{attempt}" for attempt in range(8))):
        await engines[0].create(name, CREATED)
    for attempt in range(8):
        retained = {"tokenRetentionUntil": clock.wall() + timedelta(hours=1)}
        await engines[0].create(f"old{attempt}", hook_created("h", f"t{attempt}", **retained))
        await engines[0].create(f"old{attempt}", ENDED)
    assert len(await stores[0].read_hooks(HookQuery(hook_id="h", limit=9))) == 8
    clock.advance(3600)
    for attempt in range(8):
        kinds = await contest(engines, f"new{attempt}", f"t{attempt}")
        assert sorted(kinds) == ["hook_conflict", "hook_conflict", "hook_created"]
        (holder,) = await stores[0].read_hooks(HookQuery(token=f"t{attempt}", limit=9))
        assert holder.entity.run_id == f"r{kinds.index('hook_created')}"
    assert await stores[0].read_hooks(HookQuery(hook_id="h", limit=9)) == []


async def test_hooks_made_for_one_run_in_several_processes_leave_a_dense_log(stores: list[Store]) -> None:
    clock = FakeClock()
    engines = [Engine(store, clock) for store in stores]
    await engines[0].create(RUN, CREATED)
    answers = await asyncio.gather(
        *(engines[number % 3].create(RUN, hook_created(f"h{number}", f"t{number}")) for number in range(24))
    )
    slots = [answer.row.slot for answer in answers if isinstance(answer, Written)]
    assert sorted(slots) == list(range(2, 26))
    assert len(await read_slots(stores[0])) == 25


async def test_runs_that_ask_for_each_others_tokens_do_not_wait_for_each_other(stores: list[Store]) -> None:
    clock = FakeClock()
    engines = [Engine(store, clock) for store in stores]
    for number, engine in enumerate(engines):
        await engine.create(f"r{number}", CREATED)
        await engine.create(f"r{number}", hook_created("mine", f"t{number}"))
    asked = [
        engines[number].create(f"r{number}", hook_created(f"theirs{attempt}", f"t{(number + 1) % 3}"))
        for attempt in range(5)
        for number in range(3)
    ]
    answers = await asyncio.gather(*asked)
    assert all(isinstance(answer, Written) for answer in answers)
    assert [(await load(stores[0], f"r{number}")).last_slot for number in range(3)] == [7, 7, 7]


# -- restarts ----------------------------------------------------------------------------------


async def test_everything_is_there_after_a_restart(make_shared_store: MakeStore) -> None:
    names: dict[str, Any] = {"steps": "s", "waits": "w", "hooks": "h", "tokens": "t", "claims": ["key"]}

    async def look(store: Store) -> list[Any]:
        return [
            await load(store, **names),
            await store.read_log(LogQuery(run_id=RUN)),
            await store.read_runs(RunQuery(limit=9)),
            await store.read_steps(StepQuery(run_id=RUN, limit=9)),
            await store.read_hooks(HookQuery(limit=9)),
            await store.list_streams(RUN),
            await store.read_stream(StreamQuery(run_id=RUN, name="s")),
        ]

    store = make_shared_store()
    await store.open()
    await save(store, EVERYTHING)
    await save(store, Changes(run=run(OTHER), last_slot=0))
    await store.write_stream(RUN, "s", [b"a", b"b"], close=True)
    before = await look(store)
    await store.aclose()
    for again in (store, make_shared_store()):
        await again.open()
        assert await look(again) == before
        await again.aclose()
    await store.open()
    await save(store, Changes(run=run("newer"), last_slot=0))
    listed = await store.read_runs(RunQuery(limit=9))
    assert [each.entity.run_id for each in listed] == [RUN, OTHER, "newer"]
    await store.aclose()


_WRITER = """
import asyncio, os, signal, sys
from eventclient.devserver.stores.sqlite import SqliteStore
from eventclient.devserver.stores.sqlite_database import Database
from tests.devserver.test_store_races import write_one

save = Database.save
def save_and_die(self, changes):
    save(self, changes)
    if changes.last_slot >= 6:
        os.kill(os.getpid(), signal.SIGKILL)
Database.save = save_and_die

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    while True:
        print(await write_one(store), flush=True)
asyncio.run(main())
"""


async def write_one(store: Store) -> list[int]:
    """Change the run by two events; their slots."""

    def decide(state: State) -> Decision[list[int]]:
        return append([f"s{state.last_slot + 1}", f"s{state.last_slot + 2}"], state)

    return await store.change(Wanted(run_id=RUN), decide)


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
async def test_a_process_killed_in_mid_transaction_leaves_what_it_had_answered(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    beside = SqliteStore(path)
    await beside.open()
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WRITER, path),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    answered, _ = await killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert answered.split(b"\n") == [b"[1, 2]", b"[3, 4]", b""]
    # Who was there all along, and who comes after it, go on from there.
    after = SqliteStore(path)
    await after.open()
    for store, slots in ((beside, [5, 6]), (after, [7, 8])):
        assert await write_one(store) == slots
        assert await read_slots(store) == {f"s{slot}": slot for slot in range(1, slots[-1] + 1)}
    await beside.aclose()
    await after.aclose()
