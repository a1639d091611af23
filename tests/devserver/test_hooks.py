"""Hooks over HTTP: tokens, deliveries, retention."""

from __future__ import annotations

from datetime import timedelta

import pytest

from eventclient.wire.params import WriteParams
from tests.devserver.api import AT, FRAMES, RUN, Api
from tests.support.fake_clock import FakeClock

OTHER = "wrun_01M8N3CBJFGCK98VP8CKHQXT85"
PAIR = WriteParams(resume_id="01M8N3CBJFGCK98VP8CKHQXT90", resume_payload_digest="ab" * 32)


async def test_a_hook_is_created_received_and_disposed_of(api: Api) -> None:
    await api.running_run()
    value = (await api.post("hook_created", "h", token="tok", metadata=b"devlm", isSystem=True)).value
    assert value["hook"] == {
        "runId": RUN,
        "hookId": "h",
        "token": "tok",
        "ownerId": "local",
        "projectId": "local",
        "environment": "local",
        "createdAt": AT,
        "specVersion": 7,
        "isWebhook": False,
        "isSystem": True,
        "resumeContext": {"deploymentId": "dpl", "workflowName": "flow", "runSpecVersion": 7},
    }
    assert value["event"]["eventData"] == {"token": "tok", "isSystem": True}
    for payload in (b"devl1", b"devl1"):
        received = (await api.post("hook_received", "h", token="tok", payload=payload)).value
        assert received["event"]["eventData"] == {"token": "tok"}
        assert "hook" not in received
    assert (await api.post("hook_disposed", "h", token="tok")).status == 200
    for event_type in ("hook_disposed", "hook_received"):
        gone = await api.post(event_type, "h")
        assert (gone.status, gone.code) == (404, "hook-not-found")
    assert (await api.post("hook_created", "h", token="tok")).status == 200
    rows = (await api.get(f"/runs/{RUN}/events?returnAll=true")).events
    assert [row["body"] for row in rows[2:5]] == [b"devlm", b"devl1", b"devl1"]
    assert rows[2]["eventData"] == {"token": "tok", "isSystem": True}


@pytest.mark.parametrize("token", ["tok", "another"])
async def test_a_hook_id_is_used_once_at_a_time(api: Api, token: str) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token="tok")
    assert (await api.post("hook_created", "h", token=token)).status == 409
    assert len(await api.log()) == 3
    # The refused one claimed no token.
    assert (await api.post("hook_created", "h2", token="another")).value["event"][
        "eventType"
    ] == "hook_created"


async def test_a_taken_token_leaves_a_conflict_event_and_no_hook(api: Api) -> None:
    await api.running_run()
    await api.running_run(OTHER)
    await api.post("hook_created", "h", token="tok")
    for run, c in ((OTHER, "h"), (RUN, "h2")):
        params = WriteParams(since_cursor="eid:evnt_00000000000000000000000002")
        value = (
            await api.post("hook_created", c, run=run, token="tok", metadata=b"devl", params=params)
        ).value
        assert value["event"]["eventType"] == "hook_conflict"
        assert value["event"]["correlationId"] == c
        assert value["event"]["eventData"] == {"token": "tok", "conflictingRunId": RUN}
        assert "hook" not in value
        assert value["events"][-1] == value["event"]
        assert (await api.post("hook_received", c, run=run)).status == 404


async def test_a_token_is_free_once_its_run_ends(api: Api) -> None:
    await api.running_run()
    await api.running_run(OTHER)
    await api.post("hook_created", "h", token="tok")
    await api.post("run_completed")
    value = (await api.post("hook_created", "h", run=OTHER, token="tok")).value
    assert value["event"]["eventType"] == "hook_created"


async def test_a_retained_token_stays_taken_until_its_time(api: Api, clock: FakeClock) -> None:
    await api.running_run()
    await api.running_run(OTHER)
    until = clock.wall() + timedelta(days=1)
    value = (await api.post("hook_created", "h", token="tok", tokenRetentionUntil=until)).value
    assert value["hook"]["tokenRetentionUntil"] == until
    await api.post("run_completed")
    taken = (await api.post("hook_created", "a", run=OTHER, token="tok")).value
    assert taken["event"]["eventType"] == "hook_conflict"
    received = await api.post("hook_received", "h")
    assert (received.status, received.code) == (410, "run-expired")
    clock.advance(86400)
    freed = (await api.post("hook_created", "b", run=OTHER, token="tok")).value
    assert freed["event"]["eventType"] == "hook_created"
    assert (await api.post("hook_disposed", "h")).status == 404


async def test_a_token_is_not_kept_for_ever(api: Api, clock: FakeClock) -> None:
    await api.running_run()
    until = clock.wall() + timedelta(days=30)
    assert (await api.post("hook_created", "h", token="a", tokenRetentionUntil=until)).status == 200
    until += timedelta(seconds=1)
    answer = await api.post("hook_created", "h2", token="b", tokenRetentionUntil=until)
    assert (answer.status, answer.code) == (400, "invalid-event")


async def test_a_delivery_with_a_resume_id_is_stored_once(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token="tok")
    first = (await api.post("hook_received", "h", payload=b"devl", params=PAIR)).value
    assert first["event"]["resumeId"] == PAIR.resume_id
    await api.post("hook_disposed", "h")
    for event_type in ("hook_received", "run_completed", "hook_received"):
        c, params = ("h", PAIR) if event_type == "hook_received" else (None, WriteParams())
        again = await api.post(event_type, c, params=params)
        assert again.status == 200
        if event_type == "hook_received":
            assert again.value["event"] == first["event"]
            assert again.headers["x-wf-event-id"] == first["event"]["eventId"]
    assert len(await api.log()) == 6


async def test_a_resume_id_is_bound_to_its_hook_and_digest(api: Api) -> None:
    await api.running_run()
    await api.all_taken([("hook_created", "h", {"token": "a"}), ("hook_created", "i", {"token": "b"})])
    await api.post("hook_received", "h", params=PAIR)
    other_digest = WriteParams(resume_id=PAIR.resume_id, resume_payload_digest="cd" * 32)
    assert (await api.post("hook_received", "h", params=other_digest)).status == 409
    assert (await api.post("hook_received", "i", params=PAIR)).status == 409
    assert len(await api.log()) == 5


async def test_a_delivery_can_be_answered_with_the_whole_log(api: Api) -> None:
    await api.running_run()
    await api.post("hook_created", "h", token="tok")
    answer = await api.post("hook_received", "h", payload=b"devlp", params=PAIR, headers=FRAMES)
    assert answer.events[-1]["resumeId"] == PAIR.resume_id
    assert answer.events[-1]["body"] == b"devlp"
    assert answer.headers["x-wf-event-id"] == "evnt_00000000000000000000000004"
    assert answer.headers["x-wf-max-events"] == "25000"
    assert answer.end["hasMore"] is False
    plain = await api.post("hook_received", "h", payload=b"devlp", headers=FRAMES)
    assert plain.value["event"]["eventType"] == "hook_received"
