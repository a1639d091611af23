"""Where a drill takes place, and what has to be there before."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest

from eventclient.client.client import EventClient
from eventclient.devserver.app import DevServer
from eventclient.drill.grounds import OtherGround, check_support, mint_run_ids, prepare_run
from eventclient.drill.kinds import HOOK_ID, TARGETS
from eventclient.errors import ConfigurationError
from eventclient.model.ids import ulid_time
from tests.support.scripted_server import Reply, ScriptedServer

from .rows import RUN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "open-sesame"


def test_run_ids_carry_the_instant_and_are_distinct() -> None:
    ids = mint_run_ids(100, NOW, (1 << 80) - 1)
    assert len(set(ids)) == 100
    assert {ulid_time(run_id) for run_id in ids} == {NOW}


class TestSupport:
    async def test_the_reference_server_keeps_keys(self) -> None:
        async with DevServer(token=TOKEN) as server:
            await check_support(server.url, TOKEN, RUN)
            assert server.requests.total() == 1

    async def test_it_lets_nobody_in_without_its_token(self) -> None:
        async with DevServer(token=TOKEN) as server:
            with pytest.raises(ConfigurationError, match="token: it answers 401"):
                await check_support(server.url, "another", RUN)

    @pytest.mark.parametrize("said", [{}, {"Idempotency-Support": "false"}])
    async def test_a_server_without_keys(self, said: dict[str, str]) -> None:
        async with ScriptedServer([Reply(status=404, headers=said)]) as server:
            with pytest.raises(ConfigurationError, match="does not keep idempotency keys"):
                await check_support(server.origin, None, RUN)

    async def test_a_server_that_is_not_there(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            with pytest.raises(ConfigurationError, match="cannot be reached"):
                await check_support(url, None, RUN)


async def test_a_run_has_what_operations_write_to() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        await prepare_run(client, RUN, ["step_of_mine"])
        log = await client.read_log(RUN)
    steps = [event.correlation_id for event in log if event.event_type == "step_created"]
    assert steps == [*TARGETS, "step_of_mine"]
    assert [event.event_type for event in log[:3]] == ["run_created", "run_started", "hook_created"]
    assert log[2].correlation_id == HOOK_ID


async def test_a_run_that_cannot_be_made() -> None:
    async with DevServer() as server, EventClient(server.url) as client:
        await prepare_run(client, RUN, [])
        with pytest.raises(ConfigurationError, match="cannot be drilled"):
            await prepare_run(client, RUN, [])


async def test_another_s_server_is_the_same_before_and_after() -> None:
    ground = OtherGround("http://127.0.0.1:1", TOKEN)
    assert not ground.own
    async with ground.at_peace() as url:
        assert url == "http://127.0.0.1:1"
