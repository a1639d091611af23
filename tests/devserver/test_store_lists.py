"""What every `Store` promises about lists of runs, steps and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from eventclient.devserver.state import Changes
from eventclient.devserver.store import HookQuery, Listed, RunQuery, StepQuery, Store
from eventclient.model.entities import Hook, Run, Step
from tests.devserver.api import AT, RUN
from tests.devserver.saved import OTHER, hook, run, save, step

RUNS = ("r3", "r1", "r2", "r5", "r4")


async def make_runs(store: Store) -> None:
    for index, name in enumerate(RUNS):
        fields = {"workflowName": "even" if index % 2 == 0 else "odd"}
        await save(store, Changes(run=run(name, **fields), last_slot=0))
    # What is changed later stays where it is.
    done = run("r1", workflowName="odd", status="completed", completedAt=AT)
    await save(store, Changes(run=done, last_slot=0))


def names_of(listed: Sequence[Listed[Any]]) -> list[str]:
    """Names of entities whose positions grow, or fall."""
    positions = [each.position for each in listed]
    assert positions in (sorted(set(positions)), sorted(set(positions), reverse=True))
    names: dict[type, str] = {Run: "run_id", Step: "step_id", Hook: "hook_id"}
    return [getattr(each.entity, names[type(each.entity)]) for each in listed]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["r3", "r1", "r2", "r5", "r4"]),
        ({"descending": True}, ["r4", "r5", "r2", "r1", "r3"]),
        ({"run_id": "r2"}, ["r2"]),
        ({"run_id": "nobody"}, []),
        ({"workflow_name": "odd"}, ["r1", "r5"]),
        ({"status": "running"}, ["r3", "r2", "r5", "r4"]),
        ({"status": "completed"}, ["r1"]),
        ({"workflow_name": "even", "status": "completed"}, []),
        ({"workflow_name": "even", "descending": True, "limit": 2}, ["r4", "r2"]),
        ({"limit": 1}, ["r3"]),
    ],
)
async def test_runs_are_listed_by_the_query(store: Store, query: dict[str, Any], names: list[str]) -> None:
    await make_runs(store)
    assert names_of(await store.read_runs(RunQuery(**{"limit": 100, **query}))) == names


async def test_a_listed_run_is_the_run_as_it_is_now(store: Store) -> None:
    await make_runs(store)
    (listed,) = await store.read_runs(RunQuery(run_id="r1"))
    assert listed.entity == run("r1", workflowName="odd", status="completed", completedAt=AT)


@pytest.mark.parametrize("descending", [False, True])
async def test_runs_come_in_pages(store: Store, descending: bool) -> None:
    await make_runs(store)

    def page(after: int | None) -> Awaitable[Sequence[Listed[Any]]]:
        return store.read_runs(RunQuery(after=after, limit=2, descending=descending))

    pages = await all_pages(page)
    assert [len(each) for each in pages] == [2, 2, 1, 0]
    assert [name for each in pages for name in each] == list(RUNS[::-1] if descending else RUNS)


async def all_pages(page: Callable[[int | None], Awaitable[Sequence[Listed[Any]]]]) -> list[list[str]]:
    """Names page by page, each behind the last of the one before, up to the first empty page."""
    pages: list[list[str]] = []
    after: int | None = None
    while not pages or pages[-1]:
        listed = await page(after)
        pages.append(names_of(listed))
        after = listed[-1].position if listed else None
    return pages


async def make_steps(store: Store) -> None:
    await save(store, Changes(run=run(), last_slot=0, steps={name: step(name) for name in ("b", "d", "a")}))
    theirs = step("b", runId=OTHER)
    await save(store, Changes(run=run(OTHER), last_slot=0, steps={"b": theirs}))
    changed = step("b", status="running")
    await save(store, Changes(run=run(), last_slot=0, steps={"c": step("c"), "b": changed}))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["b", "d", "a", "c"]),
        ({"descending": True, "limit": 3}, ["c", "a", "d"]),
        ({"step_id": "a"}, ["a"]),
        ({"step_id": "nobody"}, []),
        ({"run_id": OTHER}, ["b"]),
        ({"run_id": "nobody"}, []),
    ],
)
async def test_steps_are_listed_by_the_query(store: Store, query: dict[str, Any], names: list[str]) -> None:
    await make_steps(store)
    assert names_of(await store.read_steps(StepQuery(**{"run_id": RUN, "limit": 100, **query}))) == names


@pytest.mark.parametrize("descending", [False, True])
async def test_steps_come_in_pages(store: Store, descending: bool) -> None:
    await make_steps(store)

    def page(after: int | None) -> Awaitable[Sequence[Listed[Any]]]:
        return store.read_steps(StepQuery(run_id=RUN, after=after, limit=3, descending=descending))

    names = ["b", "d", "a", "c"][:: -1 if descending else 1]
    assert await all_pages(page) == [names[:3], names[3:], []]


async def test_a_listed_step_is_the_step_as_it_is_now(store: Store) -> None:
    await make_steps(store)
    (listed,) = await store.read_steps(StepQuery(run_id=RUN, step_id="b"))
    assert listed.entity == step("b", status="running")


async def make_hooks(store: Store) -> None:
    mine = {name: hook(name, token=f"token-{name}") for name in ("b", "a", "gone")}
    await save(store, Changes(run=run(), last_slot=0, hooks=mine))
    await save(store, Changes(run=run(OTHER), last_slot=0, hooks={"b": hook("b", OTHER, token="theirs")}))
    newest = {"c": hook("c", token="token-c")}
    await save(store, Changes(run=run(), last_slot=0, hooks=newest, gone_hooks=((RUN, "gone"),)))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["b", "a", "b", "c"]),
        ({"descending": True, "limit": 3}, ["c", "b", "a"]),
        ({"run_id": RUN}, ["b", "a", "c"]),
        ({"run_id": OTHER}, ["b"]),
        ({"hook_id": "b"}, ["b", "b"]),
        ({"hook_id": "b", "run_id": RUN}, ["b"]),
        ({"token": "theirs"}, ["b"]),
        ({"token": "token-gone"}, []),
        ({"hook_id": "gone"}, []),
    ],
)
async def test_hooks_are_listed_by_the_query(store: Store, query: dict[str, Any], names: list[str]) -> None:
    await make_hooks(store)
    assert names_of(await store.read_hooks(HookQuery(**{"limit": 100, **query}))) == names


@pytest.mark.parametrize("descending", [False, True])
async def test_hooks_come_in_pages(store: Store, descending: bool) -> None:
    await make_hooks(store)

    def page(after: int | None) -> Awaitable[Sequence[Listed[Any]]]:
        return store.read_hooks(HookQuery(run_id=RUN, after=after, limit=1, descending=descending))

    names = ["b", "a", "c"][:: -1 if descending else 1]
    assert await all_pages(page) == [*([name] for name in names), []]


async def test_the_hook_that_holds_a_token_is_found_by_it(store: Store) -> None:
    await make_hooks(store)
    (listed,) = await store.read_hooks(HookQuery(token="theirs"))
    assert listed.entity == hook("b", OTHER, token="theirs")


async def test_runs_made_at_once_are_each_listed_once(store: Store) -> None:
    names = [f"r{number}" for number in range(20)]
    await asyncio.gather(*(save(store, Changes(run=run(name), last_slot=0)) for name in names))
    assert sorted(names_of(await store.read_runs(RunQuery(limit=100)))) == sorted(names)
