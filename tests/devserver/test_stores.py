"""What every `Store` promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from eventclient.devserver.state import Changes, Claim, LogQuery, State, Wanted
from eventclient.devserver.store import Decision, RunQuery, Store, StreamPart, StreamQuery
from eventclient.errors import ConfigurationError
from eventclient.model.ids import slot_event_id
from tests.devserver.api import AT, RUN
from tests.devserver.conftest import MakeStore
from tests.devserver.saved import EVERYTHING, OTHER, hook, load, row, run, save, step, wait


async def test_what_is_not_there_is_absent(store: Store) -> None:
    names = {"steps": "s", "waits": "w", "hooks": "h", "tokens": "t", "claims": "k"}
    assert await load(store, **names) == State()
    assert await store.read_log(LogQuery(run_id=RUN)) is None


async def test_what_was_saved_is_loaded(store: Store) -> None:
    await save(store, EVERYTHING)
    state = await load(
        store, steps=["s", "x"], waits=["w", "x"], hooks=["h", "x"], tokens=["t", "x"], claims=["key", "x"]
    )
    assert state.run == run()
    assert state.last_slot == 3
    assert state.steps == EVERYTHING.steps
    assert state.waits == EVERYTHING.waits
    assert state.hooks == EVERYTHING.hooks
    assert state.claims == EVERYTHING.claims
    assert state.holders["t"].hook == EVERYTHING.hooks["h"]
    assert state.holders["t"].run == run()
    assert set(state.holders) == {"t"}


async def test_only_what_is_wanted_is_loaded(store: Store) -> None:
    await save(store, EVERYTHING)
    assert await load(store) == State(run=run(), last_slot=3)
    assert (await load(store, OTHER, steps=["s"], hooks=["h"], claims=["key"])) == State()


async def test_rows_come_back_as_they_were(store: Store) -> None:
    await save(store, EVERYTHING)
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert tuple(row.event() for row in rows) == tuple(row.event() for row in EVERYTHING.events)
    assert [row.payload for row in rows] == [b"in", b"", b""]
    assert [row.event_id for row in rows] == [slot_event_id(slot) for slot in (1, 2, 3)]


@pytest.mark.parametrize(
    ("query", "slots"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"limit": 2}, [1, 2]),
        ({"after": 0, "limit": 1}, [1]),
        ({"after": 2, "limit": 2}, [3, 4]),
        ({"after": 2, "before": 5}, [3, 4]),
        ({"after": 6}, []),
        ({"descending": True}, [6, 5, 4, 3, 2, 1]),
        ({"descending": True, "limit": 2}, [6, 5]),
        ({"descending": True, "after": 3}, [2, 1]),
        ({"descending": True, "after": 1}, []),
        ({"correlation_id": "c0"}, [2, 4, 6]),
        ({"correlation_id": "c0", "after": 2, "limit": 1}, [4]),
        ({"correlation_id": "c1", "descending": True}, [5, 3, 1]),
        ({"correlation_id": "nobody"}, []),
        ({"payloads": False, "after": 2, "limit": 2}, [3, 4]),
        ({"payloads": False, "correlation_id": "c1", "descending": True}, [5, 3, 1]),
    ],
)
async def test_a_log_is_read_by_the_query(store: Store, query: dict[str, Any], slots: list[int]) -> None:
    events = tuple(row(slot, correlationId=f"c{slot % 2}") for slot in range(1, 7))
    await save(store, Changes(run=run(), last_slot=6, events=events))
    await save(store, Changes(run=run(OTHER), last_slot=0))
    rows = await store.read_log(LogQuery(run_id=RUN, **query))
    assert rows is not None
    assert [row.slot for row in rows] == slots
    assert await store.read_log(LogQuery(run_id=OTHER, **query)) == []


@pytest.mark.parametrize("descending", [False, True])
async def test_a_log_is_read_with_its_payloads_or_without(store: Store, descending: bool) -> None:
    event = row(1, "run_completed", eventData={"output": b"out"})
    await save(store, Changes(run=run(), last_slot=1, events=(event,)))
    for payloads, payload in ((True, b"out"), (False, b"")):
        query = LogQuery(run_id=RUN, descending=descending, payloads=payloads)
        (read,) = await store.read_log(query) or []
        assert (read.slot, read.meta, read.payload) == (1, event.meta, payload)


async def test_entities_are_replaced(store: Store) -> None:
    await save(store, EVERYTHING)
    later = replace(
        EVERYTHING,
        run=run(status="pending"),
        last_slot=4,
        steps={"s": step(status="running"), "s2": step("s2")},
        hooks={},
        claims={},
        events=(row(4),),
    )
    await save(store, later)
    state = await load(store, steps=["s", "s2"], hooks=["h"], claims=["key"])
    assert (state.run, state.last_slot, state.steps) == (later.run, 4, later.steps)
    assert state.hooks == EVERYTHING.hooks
    assert state.claims == EVERYTHING.claims


async def test_the_end_of_a_run_takes_its_waits_and_its_hooks_but_for_retained_ones(store: Store) -> None:
    hooks = {
        "plain": hook("plain", token="a"),
        "past": hook("past", token="b", tokenRetentionUntil=AT),
        "kept": hook("kept", token="c", tokenRetentionUntil=AT + timedelta(milliseconds=1)),
    }
    await save(store, Changes(run=run(), last_slot=0, hooks=hooks, waits={"w": wait()}))
    other = {"theirs": hook("theirs", OTHER, token="d")}
    await save(store, Changes(run=run(OTHER), last_slot=0, hooks=other, waits={"w": wait()}))
    ended = run(status="completed", completedAt=AT)
    await save(store, Changes(run=ended, last_slot=0, ended_at=AT))
    state = await load(store, hooks=hooks, waits=["w"], tokens="abcd")
    assert set(state.hooks) == {"kept"}
    assert state.waits == {}
    assert set(state.holders) == {"c", "d"}
    assert state.holders["c"].run == ended
    assert set((await load(store, OTHER, waits=["w"])).waits) == {"w"}


async def test_a_token_passes_from_hook_to_hook(store: Store) -> None:
    await save(store, Changes(run=run(), last_slot=0, hooks={"h": hook()}))
    theirs = hook("theirs", OTHER)
    changes = Changes(run=run(OTHER), last_slot=0, gone_hooks=((RUN, "h"),), hooks={"theirs": theirs})
    await save(store, changes)
    assert (await load(store, tokens="t")).holders["t"].hook == theirs
    assert (await load(store, hooks="h")).hooks == {}
    await save(store, Changes(run=run(OTHER), last_slot=0, gone_hooks=((OTHER, "theirs"),)))
    assert (await load(store, tokens="t")).holders == {}


def increment(state: State) -> Decision[int]:
    slot = state.last_slot + 1
    return Decision(slot, Changes(run=run(), last_slot=slot, events=(row(slot),)))


async def test_changes_that_wait_together_see_each_other(store: Store) -> None:
    wanted = Wanted(run_id=RUN)
    slots = await asyncio.gather(*(store.change(wanted, increment) for _ in range(20)))
    assert slots == list(range(1, 21))
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert [row.slot for row in rows] == slots


async def test_a_change_that_fails_leaves_nothing_behind(store: Store) -> None:
    def fail(state: State) -> Decision[None]:
        raise LookupError(state.last_slot)

    with pytest.raises(LookupError):
        await store.change(Wanted(run_id=RUN), fail)
    assert await store.read_log(LogQuery(run_id=RUN)) is None


async def test_changes_that_wait_together_share_no_fate(store: Store) -> None:
    def fail(_: State) -> Decision[None]:
        raise LookupError

    def spoil(_: State) -> Decision[None]:
        # The slot is taken by the change before it, so the database refuses this one.
        return Decision(None, Changes(run=run(status="pending"), last_slot=9, events=(row(1),)))

    wanted = Wanted(run_id=RUN)
    decisions = (increment, fail, increment, spoil, increment)
    results = await asyncio.gather(
        *(store.change(wanted, decide) for decide in decisions), return_exceptions=True
    )
    assert [results[0], results[2], results[4]] == [1, 2, 3]
    assert isinstance(results[1], LookupError)
    assert isinstance(results[3], Exception)
    state = await load(store)
    assert (state.run, state.last_slot) == (run(), 3)


async def test_a_slot_is_never_written_twice(store: Store) -> None:
    await save(store, EVERYTHING)
    changes = Changes(run=run(status="pending"), last_slot=4, steps={"x": step("x")}, events=(row(3),))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await save(store, changes)
    state = await load(store, steps="x")
    assert (state.run, state.last_slot, state.steps) == (run(), 3, {})


async def test_changes_cancelled_at_any_point_keep_the_store_whole(store: Store) -> None:
    for turns in range(12):
        events = (row(1, runId=f"r{turns}"),)
        task = asyncio.create_task(save(store, Changes(run=run(f"r{turns}"), last_slot=1, events=events)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await save(store, Changes(run=run("last"), last_slot=0))
    for turns in range(12):
        # Committed or not, but never in part.
        state = await load(store, f"r{turns}")
        assert state.last_slot == (1 if state.run is not None else 0)


async def test_a_store_can_be_closed_twice(make_store: MakeStore) -> None:
    store = make_store()
    await store.aclose()
    await store.open()
    await store.aclose()
    await store.aclose()


async def test_a_closed_store_says_so(make_store: MakeStore) -> None:
    store = make_store()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="not open"):
            await store.read_log(LogQuery(run_id=RUN))
        with pytest.raises(ConfigurationError, match="not open"):
            await load(store)
        await store.open()
        await store.aclose()


async def test_a_purge_takes_the_payloads_of_the_run_and_nothing_else(store: Store) -> None:
    await save(store, EVERYTHING)
    theirs = step("s", runId=OTHER, output=b"theirs")
    other_row = row(1, "run_created", runId=OTHER, eventData={"input": b"theirs"})
    await save(store, Changes(run=run(OTHER), last_slot=1, steps={"s": theirs}, events=(other_row,)))
    for run_id in (RUN, OTHER):
        await store.write_stream(run_id, "s", [b"a", b"b"], close=False)
    ended = run(status="completed", completedAt=AT, output=b"out")
    last = row(4, "run_completed", eventData={"output": b"out"})
    done = step(status="completed", completedAt=AT, output=b"result")
    await save(
        store, Changes(run=ended, last_slot=4, purge=True, steps={"s2": done, "s": done}, events=(last,))
    )
    rows = await store.read_log(LogQuery(run_id=RUN))
    assert rows is not None
    assert [(row.slot, row.payload) for row in rows] == [(slot, b"") for slot in (1, 2, 3, 4)]
    state = await load(store, steps=["s", "s2"], hooks="h", claims=["key"])
    assert state.run is not None
    assert (state.run.input, state.run.output, state.run.status) == (None, None, "completed")
    assert [(step.input, step.output) for step in state.steps.values()] == [(None, None)] * 2
    assert {step.status for step in state.steps.values()} == {"completed"}
    assert state.claims == EVERYTHING.claims
    assert state.hooks == {"h": hook(isWebhook=False)}
    stream = await store.read_stream(StreamQuery(run_id=RUN, name="s"))
    assert stream == StreamPart(0, (), 0, closed=True)
    untouched = await load(store, OTHER, steps="s")
    assert (untouched.run, untouched.steps) == (run(OTHER), {"s": theirs})
    other_rows = await store.read_log(LogQuery(run_id=OTHER))
    assert other_rows is not None
    assert [row.payload for row in other_rows] == [b"theirs"]
    stream = await store.read_stream(StreamQuery(run_id=OTHER, name="s"))
    assert stream == StreamPart(0, (b"a", b"b"), 2, closed=False)


async def test_changes_that_wait_together_see_what_each_of_them_did(store: Store) -> None:
    """One after the other: plain changes, the end of the run, its purge, hooks that come and go."""
    ended = run(status="completed", completedAt=AT)
    kept = hook("kept", token="kept", tokenRetentionUntil=AT + timedelta(hours=1))
    until_then = [
        Changes(run=run(status="pending"), last_slot=1, steps={"a": step("a")}, events=(row(1),)),
        Changes(run=run(), last_slot=2, waits={"w": wait()}, claims={"k": Claim(2, "d")}, events=(row(2),)),
        Changes(run=run(), last_slot=2, hooks={"h": hook(), "kept": kept}),
        Changes(run=run(), last_slot=3, steps={"a": step("a", status="running")}, events=(row(3),)),
        Changes(run=run(), last_slot=3, gone_hooks=((RUN, "h"),), hooks={"h2": hook("h2")}),
        Changes(run=ended, last_slot=4, ended_at=AT, events=(row(4),)),
        Changes(run=ended, last_slot=4, purge=True),
        Changes(run=ended, last_slot=5, steps={"b": step("b")}, events=(row(5),)),
    ]
    names: dict[str, Any] = {
        "steps": "ab",
        "waits": "w",
        "hooks": ["h", "h2", "kept"],
        "tokens": ["t", "kept"],
        "claims": "k",
    }
    wanted_names: dict[str, Any] = {kind: frozenset(each) for kind, each in names.items()}
    wanted = Wanted(run_id=RUN, **wanted_names)
    states = await asyncio.gather(
        *(store.change(wanted, partial(after, changes)) for changes in until_then),
        store.change(wanted, Decision),
    )
    assert states[0] == State()
    assert [state.last_slot for state in states] == [0, 1, 2, 2, 3, 3, 4, 4, 5]
    names_of_hooks = [" ".join(sorted(state.hooks)) for state in states[3:]]
    assert names_of_hooks == ["h kept", "h kept", "h2 kept", "kept", "kept", "kept"]
    assert [holder_of(state, "t") for state in states[3:]] == ["h", "h", "h2", None, None, None]
    assert [holder_of(state, "kept") for state in states[2:]] == [None] + ["kept"] * 6
    assert [sorted(state.waits) for state in states] == [[]] * 2 + [["w"]] * 4 + [[]] * 3
    assert [state.steps["a"].status for state in states[1:]] == ["pending"] * 3 + ["running"] * 5
    assert [state.steps["a"].input for state in states[1:]] == [b"in"] * 6 + [None] * 2
    assert [state.claims for state in states[1:]] == [{}] + [{"k": Claim(2, "d")}] * 7
    last = states[-1]
    purged = states[-2].run
    assert purged is not None
    assert (purged.status, purged.input) == ("completed", None)
    assert (last.steps["b"], last.run) == (step("b"), ended)
    # What they saw of each other is what the store holds.
    assert await load(store, **names) == last
    assert last.holders["kept"].run == last.run


def after(changes: Changes, state: State) -> Decision[State]:
    return Decision(state, changes)


def holder_of(state: State, token: str) -> str | None:
    return state.holders[token].hook.hook_id if token in state.holders else None


async def test_each_sees_what_it_wants_alone(store: Store) -> None:
    await save(store, EVERYTHING)
    several: list[dict[str, Any]] = [
        {"steps": "s"},
        {"waits": "w"},
        {"hooks": "h"},
        {"tokens": "t"},
        {"claims": ["key"]},
        {},
    ]
    for names, state in zip(
        several, await asyncio.gather(*(load(store, **names) for names in several)), strict=True
    ):
        seen = {kind for kind in ("steps", "waits", "hooks", "holders", "claims") if getattr(state, kind)}
        assert seen == {"holders" if kind == "tokens" else kind for kind in names}


async def test_a_holder_is_shown_with_its_run_as_it_is_now(store: Store) -> None:
    await save(store, Changes(run=run(), last_slot=0, hooks={"h": hook()}))
    wanted = Wanted(run_id=RUN, tokens=frozenset("t"))
    pending = Changes(run=run(status="pending"), last_slot=0, steps={"s": step()})
    _, state = await asyncio.gather(
        store.change(wanted, partial(after, pending)), store.change(wanted, Decision)
    )
    assert state.holders["t"].run == run(status="pending")


ODD_NAMES = [
    "",
    "nul\0",
    "\x01",
    "#1",
    "\u00e9\U0001f600",
    "x" * 5000,
    "x" * 5001,
    "%_'\"\\",
    "a b",
    "A",
    "a",
]


async def test_any_name_is_a_name(store: Store) -> None:
    for number, name in enumerate(ODD_NAMES):
        changes = Changes(
            run=run(name, workflowName=name),
            last_slot=1,
            steps={name: step(name, runId=name)},
            waits={name: wait(name)},
            hooks={name: hook(name, name, token=name)},
            claims={name: Claim(number, name)},
            events=(row(1, runId=name, correlationId=name),),
        )
        await save(store, changes)
    for number, name in enumerate(ODD_NAMES):
        names = [name]
        state = await load(store, name, steps=names, waits=names, hooks=names, tokens=names, claims=names)
        found = (state.steps, state.waits, state.hooks, state.holders, state.claims)
        assert [set(each) for each in found] == [{name}] * 5
        assert state.claims[name] == Claim(number, name)
        assert state.run == run(name, workflowName=name)
        rows = await store.read_log(LogQuery(run_id=name, correlation_id=name))
        assert rows is not None
        assert [row.event().correlation_id for row in rows] == [name]
        (listed,) = await store.read_runs(RunQuery(workflow_name=name, limit=9))
        assert listed.entity.run_id == name
