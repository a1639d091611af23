"""Whole drills: those that pass, and those that must not.

Leases, and the seconds a server asks for, are real here: what is tried is what happens between real
requests. So drills that have to wait wait together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from eventclient.client.transport import AiohttpTransport, Answer, Loss, Request
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.devserver.store import Store
from eventclient.devserver.stores import STORES
from eventclient.drill.drilling import NOT_OURS, Drill
from eventclient.drill.faults import FAULTS, Fault, Way
from eventclient.drill.grounds import OtherGround, OwnGround, Serve
from eventclient.drill.plan import DrillOptions, Operation
from eventclient.drill.report import DrillReport
from eventclient.drill.stalls import KEYS
from eventclient.errors import ConfigurationError
from eventclient.wire.spec import KILL_SWITCH
from tests.support.postgres_cluster import Cluster

from .rows import kind

SMALL = DrillOptions(ops=40, rate=0.5, seed=1, run_ops=15)
"""Four times every fault, in three runs."""
SMALLER = replace(SMALL, ops=20)
AT_ISSUE = DrillOptions(ops=50, rate=0.1)
"""Every fault once, within the hundred operations in which it has to show."""


def serving(make_store: Callable[[], Store]) -> Serve:
    def serve(hidden: Hidden) -> AbstractAsyncContextManager[DevServer]:
        return DevServer(make_store(), keys=KEYS, hidden=hidden)

    return serve


def on_file(path: Path, protection: Protection = Protection.FENCED) -> OwnGround:
    return OwnGround(serving(lambda: STORES["sqlite"](str(path))), protection)


def assert_passed(report: DrillReport, options: DrillOptions) -> None:
    assert report.violations == ()
    assert report.passed
    assert report.schedule is None
    assert report.effects == (0, options.ops, 0)
    assert report.operations == options.ops
    assert report.deliveries > options.ops
    assert report.replays > 0
    assert report.unknown == 0
    injected = sum(tally.injected for tally in report.faults.values())
    assert injected == round(options.ops * options.rate)


async def test_exactly_one_effect_on_sqlite(tmp_path: Path) -> None:
    told: list[str] = []
    report = await Drill(on_file(tmp_path / "drill.db"), SMALL, on_done=told.append).run()
    assert_passed(report, SMALL)
    assert {fault: tally.injected for fault, tally in report.faults.items()} == dict.fromkeys(Fault, 4)
    assert len(told) == SMALL.ops
    assert len(set(told)) == 3


async def test_exactly_one_effect_on_postgresql(cluster: Cluster) -> None:
    dsn = cluster.fresh_database()
    report = await Drill(OwnGround(serving(lambda: STORES["postgresql"](dsn))), SMALLER).run()
    assert_passed(report, SMALLER)


async def test_exactly_one_effect_on_somebody_else_s_server() -> None:
    async with DevServer() as server:
        report = await Drill(OtherGround(server.url), SMALLER).run()
    assert_passed(report, SMALLER)
    crash = report.faults[Fault.CRASH]
    assert (crash.planned, crash.injected, crash.reason) == (0, 0, NOT_OURS)
    assert all(tally.reason is None for fault, tally in report.faults.items() if fault is not Fault.CRASH)


class TestItCanFail:
    """Without the fence, and without the record, a drill of a hundred operations finds it out."""

    @staticmethod
    async def drills(folder: Path, protection: Protection) -> list[DrillReport]:
        drills = [
            Drill(on_file(folder / f"{seed}.db", protection), replace(AT_ISSUE, seed=seed))
            for seed in range(3)
        ]
        return await asyncio.gather(*(drill.run() for drill in drills))

    async def test_without_the_fence(self, tmp_path: Path) -> None:
        for report in await self.drills(tmp_path, Protection.RECORDED):
            assert not report.passed
            assert report.effects[2] > 0
            # Nothing else is amiss: the zombies are what it shows in.
            assert all("stalls beyond its lease" in item.subject for item in report.violations)
            schedule = report.schedule
            assert schedule is not None
            assert schedule.alone
            first, second = (step for step in schedule.steps if step.startswith("the key is claimed"))
            tokens = [int(step.rpartition(" ")[2]) for step in (first, second)]
            assert tokens[0] < tokens[1]
            assert f"the holder of {tokens[0]} stalls beyond its lease" in schedule.steps
            assert f"the holder of {tokens[0]} goes on to its commit" in schedule.steps
            assert schedule.steps[-2:] == (
                "the log holds 2 effects of the key",
                "violation: 2 effects of its key",
            )

    async def test_without_the_record(self, tmp_path: Path) -> None:
        for report in await self.drills(tmp_path, Protection.NONE):
            assert not report.passed
            assert report.effects[2] >= 5
            assert report.replays == 0
            assert report.faults[Fault.CRASH].injected == 0
            told = {item.told for item in report.violations}
            assert "2 effects of its key" in told
            assert "another payload than its own is in the log" in told
            assert "another payload under the key was answered 200" in told
            assert "its fault could not be injected" in told
            schedule = report.schedule
            assert schedule is not None
            assert schedule.alone
            assert "the log holds 2 effects of the key" in schedule.steps

    @pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.CRASH])
    async def test_without_the_record_every_fault_shows_it(
        self, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ways = [way for way in FAULTS[fault].ways if way is not Way.DEADLINE_PASSES]
        alone(monkeypatch, *ways)
        report = await Drill(on_file(tmp_path / "drill.db", Protection.NONE), SMALL).run()
        assert report.effects == (0, 0, len(ways))

    async def test_a_client_that_sends_again_under_another_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent = 0

        class Forgetful(AiohttpTransport):
            async def send(self, request: Request) -> Answer | Loss:
                nonlocal sent
                if request.method == "POST":
                    sent += 1
                    request = replace(
                        request, headers={**request.headers, "Idempotency-Key": f'"another {sent}"'}
                    )
                return await super().send(request)

        monkeypatch.setattr("eventclient.drill.drilling.AiohttpTransport", Forgetful)
        alone(monkeypatch, Way.LOST_ONCE)
        report = await Drill(on_file(tmp_path / "drill.db"), SMALL).run()
        assert report.effects == (0, 0, 1)
        assert report.schedule is not None
        assert report.schedule.alone


def alone(monkeypatch: pytest.MonkeyPatch, *ways: Way) -> None:
    """Make drills of one operation for each of `ways`, which nothing but its key protects."""
    operations = tuple(
        Operation(index, f"drill-7-{index}", kind("step_retrying"), way) for index, way in enumerate(ways)
    )
    monkeypatch.setattr("eventclient.drill.drilling.plan_operations", lambda options, own: operations)


async def test_what_does_not_show_alone_is_told_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = 0

    class LosesFirst(AiohttpTransport):
        """Pretends once that a write was refused that was none."""

        async def send(self, request: Request) -> Answer | Loss:
            nonlocal lost
            reply = await super().send(request)
            if request.method == "POST" and request.label.endswith("step_retrying") and not lost:
                lost += 1
                assert isinstance(reply, Answer)
                return replace(reply, status=403, body=b"")
            return reply

    monkeypatch.setattr("eventclient.drill.drilling.AiohttpTransport", LosesFirst)
    alone(monkeypatch, Way.IN_TURN)
    report = await Drill(on_file(tmp_path / "drill.db"), SMALL).run()
    assert report.schedule is not None
    assert not report.schedule.alone
    assert "delivery 1: 403" in report.schedule.steps
    assert report.effects == (0, 1, 0)


async def test_a_server_that_executes_nothing_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(AiohttpTransport):
        async def send(self, request: Request) -> Answer | Loss:
            if request.label.endswith("step_retrying"):
                request = replace(request, body=b"")
            return await super().send(request)

    monkeypatch.setattr("eventclient.drill.drilling.AiohttpTransport", Refused)
    alone(monkeypatch, Way.LOST_ONCE)
    async with DevServer() as server:
        with pytest.raises(ConfigurationError, match="executed none"):
            await Drill(OtherGround(server.url), SMALL).run()


async def test_batches_must_be_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KILL_SWITCH, "0")
    with pytest.raises(ConfigurationError, match=KILL_SWITCH):
        await Drill(on_file(tmp_path / "drill.db"), SMALL).run()
