"""The published Python SDK's world against the reference server."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eventclient.devserver.app import DevServer
from eventclient.devserver.faults import FaultScript
from eventclient.devserver.store import Store

from .sdk import CREATION, DEPLOYMENT, READ_BY_THE_SDK, WORKFLOW, Sdk, load_client, load_sdk, slot_of
from .trouble import assert_all_injected, load_faults

pytestmark = pytest.mark.interop


@pytest.fixture
def w(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module of the SDK with its events and errors, and nothing around that changes what it does."""
    for name in READ_BY_THE_SDK:
        monkeypatch.delenv(name, raising=False)
    # Where it looks for a project to log in for.
    monkeypatch.chdir(tmp_path)
    # Certificates: it loads them for every request, which would be most of what these tests take.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    return load_sdk()


@asynccontextmanager
async def serving(
    w: Any, monkeypatch: pytest.MonkeyPatch, store: Store, faults: FaultScript | None = None
) -> AsyncIterator[Sdk]:
    async with DevServer(store, faults=faults) as server:
        monkeypatch.setenv("VERCEL_WORKFLOW_SERVER_URL", server.url)
        client = load_client()
        yield Sdk(w, client.VercelWorld(), client.httpx.TransportError)
        if faults is not None:
            await assert_all_injected(server.url, faults)


@pytest.fixture
async def sdk(w: Any, monkeypatch: pytest.MonkeyPatch, store: Store) -> AsyncIterator[Sdk]:
    async with serving(w, monkeypatch, store) as sdk:
        yield sdk


async def test_a_run_from_its_creation_to_its_end(sdk: Sdk) -> None:
    run_id = sdk.new_run_id()
    created = await sdk.post(run_id, "run_created", **CREATION, executionContext={"a": {"b": 1}})
    assert created.event.event_data.input == b"devlinput"
    assert (created.run.run_id, created.run.status) == (run_id, "pending")
    assert (created.run.deployment_id, created.run.workflow_name) == (DEPLOYMENT, WORKFLOW)
    assert (created.run.spec_version, created.run.execution_context) == (5, {"a": {"b": 1}})

    started = await sdk.post(run_id, "run_started")
    assert started.run.status == "running"
    again = await sdk.post(run_id, "run_started")
    assert again.run.started_at == started.run.started_at is not None

    await sdk.post(run_id, "run_completed", output=b"devlout")
    run = await sdk.world.runs_get(run_id)
    assert (run.status, run.input, run.output) == ("completed", b"devlinput", b"devlout")
    assert run.completed_at is not None
    assert await sdk.types(run_id) == ["run_created", "run_started", "run_completed"]


async def test_runs_that_fail_and_runs_that_are_cancelled(sdk: Sdk) -> None:
    failing, cancelling = await sdk.begin_run(), await sdk.begin_run()
    await sdk.post(failing, "run_failed", error=b"devlboom", errorCode="USER_ERROR")
    run = await sdk.world.runs_get(failing)
    assert (run.status, run.error, run.error_code) == ("failed", b"devlboom", "USER_ERROR")
    cancelled = await sdk.post(cancelling, "run_cancelled", cancelReason="no longer wanted")
    assert cancelled.run.status == "cancelled"
    event = (await sdk.log(cancelling)).data[-1]
    assert event.event_data.cancel_reason == "no longer wanted"


async def test_a_start_that_overtakes_its_creation(sdk: Sdk) -> None:
    run_id = sdk.new_run_id()
    started = await sdk.post(run_id, "run_started", **CREATION, attributes={"team": "a"})
    assert (started.run.status, started.run.input) == ("running", b"devlinput")
    assert started.run.attributes == {"team": "a"}
    with pytest.raises(sdk.w.EntityConflictError):
        await sdk.post(run_id, "run_created", **CREATION)
    assert await sdk.types(run_id) == ["run_created", "run_started"]


async def test_steps_with_retries(sdk: Sdk) -> None:
    run_id = await sdk.begin_run()
    await sdk.post(run_id, "step_created", "step_a", stepName="work", input=b"devlin")
    first = await sdk.post(run_id, "step_started", "step_a")
    assert (first.step.status, first.step.attempt, first.step.input) == ("running", 1, b"devlin")
    past = datetime.now(UTC) - timedelta(seconds=1)
    await sdk.post(run_id, "step_retrying", "step_a", error=b"devlbusy", retryAfter=past)
    second = await sdk.post(run_id, "step_started", "step_a")
    assert (second.step.status, second.step.attempt) == ("running", 2)
    assert second.step.started_at == first.step.started_at
    await sdk.post(run_id, "step_completed", "step_a", result=b"devlout")
    step = await sdk.world.steps_get(run_id, "step_a")
    assert (step.step_name, step.status, step.output) == ("work", "completed", b"devlout")

    await sdk.post(run_id, "step_created", "step_b", stepName="work", input=b"devlin")
    await sdk.post(run_id, "step_failed", "step_b", error=b"devlnever")
    failed = await sdk.world.steps_get(run_id, "step_b")
    assert (failed.status, failed.error, failed.attempt) == ("failed", b"devlnever", 0)
    steps = ["step_created", "step_started", "step_retrying", "step_started", "step_completed"]
    assert await sdk.types(run_id) == ["run_created", "run_started", *steps, "step_created", "step_failed"]


async def test_waits_and_attributes(sdk: Sdk) -> None:
    run_id = await sdk.begin_run()
    resume_at = datetime(2030, 1, 2, 3, 4, 5, 678000, UTC)
    waiting = await sdk.post(run_id, "wait_created", "wait_a", resumeAt=resume_at)
    assert (waiting.wait["status"], waiting.wait["resumeAt"]) == ("waiting", resume_at)
    done = await sdk.post(run_id, "wait_completed", "wait_a")
    assert done.wait["status"] == "completed"
    with pytest.raises(sdk.w.EntityConflictError):
        await sdk.post(run_id, "wait_completed", "wait_a")

    changes = [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    for _ in range(2):
        await sdk.post(run_id, "attr_set", "attr_a", changes=changes, writer={"type": "workflow"})
    writer = {"type": "step", "stepId": "step_a", "attempt": 1}
    reserved = [{"key": "$c", "value": "2"}]
    await sdk.post(run_id, "attr_set", changes=reserved, writer=writer, allowReservedAttributes=True)
    assert (await sdk.world.runs_get(run_id)).attributes == {"a": "1", "$c": "2"}
    events = (await sdk.log(run_id)).data[2:]
    assert [event.event_type for event in events] == [
        "wait_created",
        "wait_completed",
        "attr_set",
        "attr_set",
    ]
    assert events[0].event_data.resume_at == resume_at
    assert [(change.key, change.value) for change in events[2].event_data.changes] == [
        ("a", "1"),
        ("b", None),
    ]


async def test_hooks(sdk: Sdk) -> None:
    run_id, other = await sdk.begin_run(), await sdk.begin_run()
    token = f"a token/{run_id}"
    await sdk.post(run_id, "hook_created", "hook_a", token=token, metadata=b"devlmeta", isWebhook=False)
    hook = await sdk.world.hooks_get_by_token(token)
    assert (hook.run_id, hook.hook_id, hook.token) == (run_id, "hook_a", token)
    assert (hook.metadata, hook.is_webhook) == (b"devlmeta", False)

    taken = await sdk.post(other, "hook_created", "hook_b", token=token)
    assert taken.event.event_type == "hook_conflict"
    assert (taken.event.event_data.token, taken.event.event_data.conflicting_run_id) == (token, run_id)

    await sdk.post(run_id, "hook_received", "hook_a", token=token, payload=b"devlone")
    await sdk.post(run_id, "hook_disposed", "hook_a")
    late: dict[str, Any] = {"payload": b"devltwo"}
    for event_type, data in (("hook_disposed", {}), ("hook_received", late)):
        with pytest.raises(sdk.w.HookNotFoundError) as gone:
            await sdk.post(run_id, event_type, "hook_a", **data)
        assert gone.value.hook_id == "hook_a"
    with pytest.raises(sdk.w.HookNotFoundError) as unknown:
        await sdk.world.hooks_get_by_token(token)
    assert unknown.value.token == token
    received = (await sdk.log(run_id)).data[3]
    assert (received.event_data.payload, received.event_data.token) == (b"devlone", token)
    assert await sdk.types(other) == ["run_created", "run_started", "hook_conflict"]


async def test_a_resume_that_is_delivered_twice(sdk: Sdk) -> None:
    run_id = await sdk.begin_run()
    token = f"resume {run_id}"
    await sdk.post(run_id, "hook_created", "hook_a", token=token)

    def received(payload: bytes) -> Any:
        event = sdk.event("hook_received", "hook_a", token=token, payload=payload)
        digest = hashlib.sha256(payload).hexdigest()
        fields = {"resumeId": "01M8N3CBJFGCK98VP8CKHQXT84", "hookId": "hook_a", "payloadDigest": digest}
        event._queue_input = sdk.w.HookResumeInput.from_wire({**fields, "token": token, "payload": payload})
        return event

    first = await sdk.world.events_create(run_id, received(b"devlone"))
    second = await sdk.world.events_create(run_id, received(b"devlone"))
    assert second.event["eventId"] == first.event["eventId"]
    with pytest.raises(sdk.w.EntityConflictError):
        await sdk.world.events_create(run_id, received(b"devlother"))
    event = (await sdk.log(run_id)).data[-1]
    assert (slot_of(event), event.server_props.resume_id) == (4, "01M8N3CBJFGCK98VP8CKHQXT84")
    assert event.event_data.payload == b"devlone"


async def test_a_log_in_pages(sdk: Sdk) -> None:
    run_id = await sdk.begin_run()
    for number in range(5):
        await sdk.post(run_id, "step_created", f"step_{number}", stepName="work", input=b"devl%d" % number)
    slots: list[list[int]] = []
    cursor, more = None, True
    while more:
        page = await sdk.log(run_id, limit=3, cursor=cursor)
        slots.append([slot_of(event) for event in page.data])
        cursor, more = page.cursor, page.has_more
    assert slots == [[1, 2, 3], [4, 5, 6], [7]]
    backwards = await sdk.log(run_id, sort_order="desc", limit=2)
    assert [slot_of(event) for event in backwards.data] == [7, 6]
    assert backwards.has_more
    # The rest, from where the last page ended: nothing yet, then one.
    assert (await sdk.log(run_id, cursor=cursor)).data == []
    await sdk.post(run_id, "step_started", "step_0")
    assert [slot_of(event) for event in (await sdk.log(run_id, cursor=cursor)).data] == [8]


async def test_what_is_refused(sdk: Sdk) -> None:
    w, run_id = sdk.w, await sdk.begin_run()
    step: dict[str, Any] = {"stepName": "work", "input": b"devlin"}
    await sdk.post(run_id, "step_created", "step_a", **step)
    with pytest.raises(w.EntityConflictError):
        await sdk.post(run_id, "run_created", **CREATION)
    with pytest.raises(w.EntityConflictError):
        await sdk.post(run_id, "step_created", "step_a", **step)
    later = datetime.now(UTC) + timedelta(hours=1)
    await sdk.post(run_id, "step_retrying", "step_a", error=b"devlbusy", retryAfter=later)
    with pytest.raises(w.TooEarlyError) as early:
        await sdk.post(run_id, "step_started", "step_a")
    assert 3000 < early.value.retry_after <= 3600
    reserved = [{"key": "$a", "value": "1"}]
    with pytest.raises(w.WorkflowWorldError) as invalid:
        await sdk.post(run_id, "attr_set", "attr_a", changes=reserved, writer={"type": "workflow"})
    assert invalid.value.status == 400
    with pytest.raises(w.WorkflowWorldError) as bad_cursor:
        await sdk.log(run_id, cursor="nonsense")
    assert bad_cursor.value.status == 400

    await sdk.post(run_id, "run_completed", output=b"devlout")
    with pytest.raises(w.EntityConflictError):
        await sdk.post(run_id, "run_completed", output=b"devlout")
    with pytest.raises(w.EntityConflictError):
        await sdk.post(run_id, "step_created", "step_b", **step)
    with pytest.raises(w.RunExpiredError) as expired:
        await sdk.post(run_id, "run_started")
    assert expired.value.status == 410
    assert len(await sdk.types(run_id)) == 5


async def test_what_does_not_exist(sdk: Sdk) -> None:
    run_id, unknown = await sdk.begin_run(), sdk.new_run_id()
    for call in (
        sdk.world.runs_get(unknown),
        sdk.world.steps_get(run_id, "step_x"),
        sdk.world.events_list(unknown),
        sdk.post(unknown, "run_started"),
        sdk.post(run_id, "step_started", "step_x"),
        sdk.post(run_id, "wait_completed", "wait_x"),
    ):
        with pytest.raises(sdk.w.WorkflowWorldError) as missing:
            await call
        assert missing.value.status == 404


async def test_a_stream_is_followed_while_it_is_written(sdk: Sdk) -> None:
    world, run_id, name = sdk.world, sdk.new_run_id(), "strm_01M8N3CBJFGCK98VP8CKHQXT84_user"
    assert await world.streams_list(run_id) == []
    reader = world.streams_get(run_id, name)
    await world.streams_write(run_id, name, b"one")
    assert await anext(reader) == b"one"
    await world.streams_write_multi(run_id, name, [b"two"])
    assert await anext(reader) == b"two"
    await world.streams_close(run_id, name)
    assert [data async for data in reader] == []
    for start, body in ((None, b"onetwo"), (1, b"two"), (-1, b"two"), (-5, b"onetwo"), (2, b"")):
        assert b"".join([data async for data in world.streams_get(run_id, name, start)]) == body
    assert await world.streams_list(run_id) == [name]


async def test_the_chunks_of_a_stream_in_pages(sdk: Sdk) -> None:
    world, run_id = sdk.world, sdk.new_run_id()
    info = await world.streams_get_info(run_id, "pages")
    assert (info.tail_index, info.done) == (-1, False)
    chunks = [b"chunk %d" % number for number in range(1003)]
    await world.streams_write_multi(run_id, "pages", chunks)
    await world.streams_close(run_id, "pages")
    info = await world.streams_get_info(run_id, "pages")
    assert (info.tail_index, info.done) == (1002, True)
    seen: list[tuple[int, bytes]] = []
    cursor, more = None, True
    while more:
        page = await world.streams_get_chunks(run_id, "pages", limit=400, cursor=cursor)
        seen += [(chunk.index, chunk.data) for chunk in page.data]
        cursor, more = page.cursor, page.has_more
        assert page.done
    assert seen == list(enumerate(chunks))
    assert cursor is None


async def test_a_closed_stream_takes_nothing(sdk: Sdk) -> None:
    run_id = sdk.new_run_id()
    await sdk.world.streams_close(run_id, "short")
    await sdk.world.streams_close(run_id, "short")
    with pytest.raises(sdk.w.WorkflowWorldError) as closed:
        await sdk.world.streams_write(run_id, "short", b"late")
    assert closed.value.status == 409


async def test_what_a_throttle_leaves_to_the_caller_is_written_once(
    w: Any, monkeypatch: pytest.MonkeyPatch, durable_store: Store
) -> None:
    async with serving(w, monkeypatch, durable_store, load_faults("python/throttle")) as sdk:
        run_id = await sdk.begin_run()
        step: dict[str, Any] = {"stepName": "work", "input": b"devlin"}
        with pytest.raises(w.ThrottleError) as throttled:
            await sdk.post(run_id, "step_created", "step_a", **step)
        assert (throttled.value.status, throttled.value.retry_after) == (429, 7)
        await sdk.post(run_id, "step_created", "step_a", **step)
        with pytest.raises(w.ThrottleError) as read:
            await sdk.log(run_id)
        assert read.value.retry_after == 3
        assert await sdk.types(run_id) == ["run_created", "run_started", "step_created"]
        # Twice throttled, and waited out by the SDK itself.
        await sdk.world.streams_write(run_id, "throttled", b"once")
        page = await sdk.world.streams_get_chunks(run_id, "throttled")
        assert [chunk.data for chunk in page.data] == [b"once"]


async def test_what_was_lost_on_the_way_back_is_there_once(
    w: Any, monkeypatch: pytest.MonkeyPatch, durable_store: Store
) -> None:
    async with serving(w, monkeypatch, durable_store, load_faults("python/reset")) as sdk:
        run_id = sdk.new_run_id()
        step: dict[str, Any] = {"stepName": "work", "input": b"devlin"}
        posts: list[tuple[str, str | None, dict[str, Any]]] = [
            ("run_created", None, CREATION),
            ("run_started", None, {}),
            ("step_created", "step_a", step),
            ("step_completed", "step_a", {"result": b"devlout"}),
            ("run_completed", None, {"output": b"devlout"}),
        ]
        for event_type, correlation_id, data in posts:
            with pytest.raises(sdk.lost):
                await sdk.post(run_id, event_type, correlation_id, **data)
            if event_type == "run_started":
                assert (await sdk.post(run_id, event_type)).run.status == "running"
                continue
            with pytest.raises(w.EntityConflictError):
                await sdk.post(run_id, event_type, correlation_id, **data)
        assert await sdk.types(run_id) == [event_type for event_type, _, _ in posts]
        # The end of a stream is told again until it is heard.
        await sdk.world.streams_write(run_id, "lost", b"one")
        await sdk.world.streams_close(run_id, "lost")
        info = await sdk.world.streams_get_info(run_id, "lost")
        assert (info.tail_index, info.done) == (0, True)


async def test_what_is_cut_is_no_answer(
    w: Any, monkeypatch: pytest.MonkeyPatch, durable_store: Store
) -> None:
    async with serving(w, monkeypatch, durable_store, load_faults("python/cut")) as sdk:
        run_id = await sdk.begin_run()
        with pytest.raises(sdk.lost):
            await sdk.log(run_id)
        assert await sdk.types(run_id) == ["run_created", "run_started"]
        # Framed as the runtime frames them, so that a reader knows how many it has had.
        chunks = [len(text).to_bytes(4, "big") + text for text in (b"one", b"two", b"three")]
        await sdk.world.streams_write_multi(run_id, "cut", chunks)
        await sdk.world.streams_close(run_id, "cut")
        seen = bytearray()

        async def read() -> None:
            async for data in sdk.world.streams_get(run_id, "cut"):
                seen.extend(data)

        with pytest.raises(sdk.lost):
            await read()
        assert seen == (chunks[0] + chunks[1])[:11]
        rest = [data async for data in sdk.world.streams_get(run_id, "cut", 1)]
        assert b"".join(rest) == chunks[1] + chunks[2]
