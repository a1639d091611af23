"""What we send, against every captured request of the published JavaScript client.

Frames are compared decoded: key order and map headers are the encoder's own affair.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from eventclient import ClientOptions, Event, EventClient, InvalidEventError, RejectedError
from eventclient.batching.chunks import BatchLimits, plan_chunks
from eventclient.wire.frames import Frame, decode_frames
from eventclient.wire.params import WriteParams
from eventclient.wire.requests import encode_event
from tests.support import vectors
from tests.support.calls import Write, reading_of, write_of
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import ScriptedServer, SeenRequest
from tests.support.tagged_json import Foreign, difference

CASES: Final = vectors.names("requests")
NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)

VOLATILE: Final = frozenset(
    {
        "host",
        "connection",
        "x-request-time",
        "user-agent",
        "content-length",
        "accept-encoding",
        "accept-language",
        "sec-fetch-mode",
    }
)
"""Headers that say nothing to an event server, or change with every run."""

UNENCODABLE: Final = {
    "create-step_created-name-lone-surrogate-long": "text that UTF-8 cannot carry is refused before sending",
    "create-wait_created-date-invalid": "an instant is a datetime; Python has no Invalid Date",
    "create-wait_created-date-js-max": "a datetime ends with the year 9999",
    "create-run_started-context-every-type": "Maps, Sets and integers float64 cannot hold are refused",
}
"""Posts of the JavaScript client that a Python caller cannot make: refused, nothing sent."""

FOREIGN_MEMBERS: Final = {
    "create-run_started-context-every-type": ("bigint", "bigint_neg", "map", "set"),
}
"""Members of the execution context without which such a post is the same after all."""

ACCEPTS_ANYTHING: Final = {
    "create-hook_received-preload": "the preload of a log by hook_received is not part of this client",
}
"""Posts in which we differ only by not asking for a framed answer."""

NOT_REFUSED: Final = {
    "refused-batch-empty": "an empty list sends nothing and returns an empty result",
    "refused-run_created-bad-id": "the form of a run id is the server's to judge",
    "refused-run_created-old-id": "recorded runs are old and are posted again",
}
"""Calls the JavaScript client refuses by itself and we do not."""

INEXPRESSIBLE_READS: Final = {
    "list-limit-0": "a page holds at least one event: a limit of 0 is refused",
}

CREATES: Final = [name for name in CASES if name.startswith("create-")]
BATCHES: Final = [name for name in CASES if name.startswith("batch-")]
READS: Final = [name for name in CASES if name.startswith(("get-", "list-"))]
REFUSED: Final = [name for name in CASES if name.startswith("refused-")]
TABLES: Final = (UNENCODABLE, FOREIGN_MEMBERS, ACCEPTS_ANYTHING, NOT_REFUSED, INEXPRESSIBLE_READS)


@pytest.fixture(autouse=True)
def _kill_switch_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKFLOW_BATCH_TRANSITIONS", raising=False)


def test_every_case_is_read_and_every_exception_is_used() -> None:
    assert sorted(CREATES + BATCHES + READS + REFUSED) == sorted(CASES)
    for table in TABLES:
        assert vectors.unused(table, CASES) == []


def captured_frames(case: dict[str, Any]) -> list[Frame]:
    write = write_of(case)
    data = write.mappings[-1].get("eventData", {})
    return decode_frames(vectors.captured_body(case["request"], data.get("input", b"")))


def our_body(write: Write, events: list[Event]) -> bytes:
    params = WriteParams(**write.params)
    encoded = [encode_event(event, now=NOW, params=params, batch=write.batch) for event in events]
    if not write.batch:
        return encoded[0].single_frame()
    body = b"".join(item.batch_frame(params.resolve_data) for item in encoded)
    assert len(body) == sum(item.batch_frame_bytes(params.resolve_data) for item in encoded)
    return body


def assert_same_frames(ours: bytes, case: dict[str, Any], without: tuple[str, ...] = ()) -> None:
    mine, theirs = decode_frames(ours), captured_frames(case)
    assert len(mine) == len(theirs)
    for ours_frame, theirs_frame in zip(mine, theirs, strict=True):
        for member in without:
            del theirs_frame.meta["executionContext"][member]
        assert difference(ours_frame.meta, theirs_frame.meta) is None
        assert ours_frame.body == theirs_frame.body


@pytest.mark.parametrize("name", [name for name in CREATES + BATCHES if name not in UNENCODABLE])
def test_frames_decode_to_what_the_reference_sent(name: str) -> None:
    case = vectors.load("requests", name)
    write = write_of(case)
    assert_same_frames(our_body(write, write.events()), case)


@pytest.mark.parametrize("name", sorted(UNENCODABLE))
async def test_what_python_cannot_hold_is_refused_before_sending(name: str) -> None:
    write = write_of(vectors.load("requests", name))
    async with ScriptedServer([]) as server, client_for(server) as client:
        with pytest.raises(InvalidEventError):
            await client.create(write.run_id, write.events()[0], **write.params)
        assert server.requests == []


@pytest.mark.parametrize("name", sorted(FOREIGN_MEMBERS))
def test_the_rest_of_such_a_post_is_the_same(name: str) -> None:
    case = vectors.load("requests", name)
    write = write_of(case)
    context = write.mappings[0]["eventData"]["executionContext"]
    for member in FOREIGN_MEMBERS[name]:
        assert isinstance(context.pop(member), Foreign | int)
    assert_same_frames(our_body(write, write.events()), case, FOREIGN_MEMBERS[name])


# -- over HTTP ---------------------------------------------------------------------------------


def client_for(server: ScriptedServer, **given: Any) -> EventClient:
    return EventClient(server.origin, **{"token": "tok"} | given, options=ClientOptions(clock=FakeClock()))


def client_as_configured(
    case: dict[str, Any], server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> EventClient:
    """A client set up as the reference was for `case`."""
    config = case.get("world_config", {})
    if "projectConfig" not in config:
        given: dict[str, Any] = {}
        if "token" in config:
            given["token"] = None
        if "headers" in config:
            given["headers"] = config["headers"]
        return client_for(server, **given)
    project = config["projectConfig"]
    for variable, value in {
        "WORKFLOW_VERCEL_PROJECT": project["projectId"],
        "WORKFLOW_VERCEL_TEAM": project["teamId"],
        "WORKFLOW_VERCEL_ENV": project["environment"],
        "WORKFLOW_VERCEL_AUTH_TOKEN": "tok",
        "VERCEL_WORKFLOW_SERVER_URL": server.origin,
        **{key: on_server(value, server) for key, value in case["env"].items()},
    }.items():
        monkeypatch.setenv(variable, value)
    return EventClient.from_environment(options=ClientOptions(clock=FakeClock()))


def on_server(value: str, server: ScriptedServer) -> str:
    return value.replace("http://<host>", server.origin)


def assert_same_headers(seen: SeenRequest, case: dict[str, Any], server: ScriptedServer) -> None:
    theirs = {key: on_server(value, server) for key, value in case["request"]["headers"].items()}
    if case["id"] in ACCEPTS_ANYTHING:
        theirs["accept"] = "*/*"
    ours = {key.lower(): value for key, value in seen.headers.items()}
    # The published client has no keys.
    key = ours.pop("idempotency-key", None)
    assert (key is not None) is (seen.method == "POST")
    assert {key: value for key, value in ours.items() if key not in VOLATILE} == {
        key: value for key, value in theirs.items() if key not in VOLATILE
    }
    assert ours["x-request-time"].isdecimal()
    assert ours.get("content-length") == str(len(seen.body)) if seen.method == "POST" else True
    caller = case.get("world_config", {}).get("headers", {}).get("User-Agent")
    assert caller is None or ours["user-agent"].endswith(f" {caller}")


def goes_as_one_batch(name: str) -> bool:
    write = write_of(vectors.load("requests", name))
    events = write.events()
    chunks = plan_chunks(events, [1] * len(events), BatchLimits())
    return len(chunks) == 1 and chunks[0].batch


@pytest.mark.parametrize("name", [name for name in CREATES if name not in UNENCODABLE])
async def test_single_posts_arrive_as_the_reference_sent_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = vectors.load("requests", name)
    write = write_of(case)
    async with ScriptedServer([]) as server, client_as_configured(case, server, monkeypatch) as client:
        with pytest.raises(RejectedError):
            await client.create(write.run_id, write.events()[0], **write.params)
        (seen,) = server.requests
        assert (seen.method, seen.target) == ("POST", case["request"]["path"])
        assert_same_headers(seen, case, server)
        assert_same_frames(seen.body, case)


@pytest.mark.parametrize("name", [name for name in BATCHES if goes_as_one_batch(name)])
async def test_batches_arrive_as_the_reference_sent_them(name: str) -> None:
    case = vectors.load("requests", name)
    write = write_of(case)
    async with ScriptedServer([]) as server, client_for(server) as client:
        with pytest.raises(RejectedError):
            await client.create_batch(write.run_id, write.events(), **write.params)
        (seen,) = server.requests
        assert (seen.method, seen.target) == ("POST", case["request"]["path"])
        assert_same_headers(seen, case, server)
        assert_same_frames(seen.body, case)


async def send(client: EventClient, write: Write) -> None:
    if write.batch:
        assert list(await client.create_batch(write.run_id, write.events(), **write.params)) == []
    else:
        await client.create(write.run_id, write.events()[0], **write.params)


@pytest.mark.parametrize("name", REFUSED)
async def test_what_the_reference_refuses_by_itself_sends_nothing(name: str) -> None:
    write = write_of(vectors.load("requests", name))
    async with ScriptedServer([]) as server, client_for(server) as client:
        if name == "refused-batch-empty":
            await send(client, write)
        else:
            with pytest.raises(RejectedError if name in NOT_REFUSED else InvalidEventError):
                await send(client, write)
        assert len(server.requests) == (name in NOT_REFUSED and write.mappings != [])


@pytest.mark.parametrize("name", READS)
async def test_reads_ask_as_the_reference_does(name: str) -> None:
    case = vectors.load("requests", name)
    async with ScriptedServer([]) as server, client_for(server) as client:
        if name in INEXPRESSIBLE_READS:
            with pytest.raises(InvalidEventError):
                await reading_of(case).first(client)
            assert server.requests == []
            return
        with pytest.raises(RejectedError):
            await reading_of(case).first(client)
        (seen,) = server.requests
        assert (seen.method, seen.target) == ("GET", case["request"]["path"])
        assert_same_headers(seen, case, server)
