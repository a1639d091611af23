"""WORKFLOW_BATCH_TRANSITIONS: single posts only, decided at each call."""

from __future__ import annotations

import asyncio

import pytest

from .samples import RUN, event, pair, steps
from .stage import Honest, stage

SWITCH = "WORKFLOW_BATCH_TRANSITIONS"


@pytest.mark.parametrize(
    ("value", "batches"),
    [
        (None, True),
        ("", True),
        (" ", True),
        ("1", True),
        ("true", True),
        ("off", True),
        ("00", True),
        ("0.0", True),
        ("0", False),
        (" 0 ", False),
        ("false", False),
        ("FALSE", False),
        ("\tFalse\n", False),
    ],
)
async def test_values_of_the_switch(
    value: str | None, batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(SWITCH, raising=False)
    else:
        monkeypatch.setenv(SWITCH, value)
    async with stage(Honest()) as it:
        await it.client.create_batch(RUN, steps(2))
        assert it.paths == (["batch"] if batches else ["step_created"] * 2)


async def test_it_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(Honest()) as it:
        for value in ("0", "1", "0"):
            monkeypatch.setenv(SWITCH, value)
            await it.client.create_batch(RUN, steps(2))
        assert [path == "batch" for path in it.paths] == [False, False, True, False, False]


@pytest.mark.parametrize("events", [steps(40), [*steps(2), *pair(), event("run_completed")]])
async def test_the_log_is_the_same_either_way(events: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    for value in ("1", "0"):
        monkeypatch.setenv(SWITCH, value)
        server = Honest()
        async with stage(server) as it:
            result = await it.client.create_batch(RUN, events)  # type: ignore[arg-type]
            assert len(result.created) == len(events)
        logs.append(server.log)
    assert logs[0] == logs[1]


async def test_the_option_does_the_same() -> None:
    async with stage(Honest(), batch=False) as it:
        await it.client.create_batch(RUN, steps(2))
        assert it.paths == ["step_created"] * 2


async def test_a_writer_obeys_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    async with stage(Honest()) as it:
        writer = it.client.writer()
        await asyncio.gather(*(writer.create(RUN, each) for each in steps(3)))
        assert it.paths == ["step_created"] * 3
