"""Tokens and payloads appear in no log, no error and no repr; redirects are told without their query."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Sequence

import pytest

from eventclient import ClientOptions, ConfigurationError, EventClient, EventClientError, Receipt
from eventclient.model.events import Event
from eventclient.wire.codec import encode_value
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Fault, Reply, ScriptedServer, refused_origin

from .answers import answered, batch_answer, item_map, log_reply, refusal
from .samples import RUN, event, steps
from .write_rows import LOST, throttled

TOKEN = "do-not-show-this-token"
PAYLOAD = "do-not-show-this-payload"
EVENTS: list[Event] = [
    event("step_created", "a", input=PAYLOAD.encode()),
    event("step_completed", "b", result=PAYLOAD.encode()),
    event("hook_created", "h", token=PAYLOAD, metadata=PAYLOAD.encode()),
    event("run_created", executionContext={"k": PAYLOAD}, attributes={"k": PAYLOAD}, input=PAYLOAD.encode()),
    event("attr_set", changes=[{"key": "k", "value": PAYLOAD}]),
]


def check(*texts: object) -> None:
    shown = "".join(str(text) + repr(text) for text in texts)
    for secret in (TOKEN, PAYLOAD):
        assert secret not in shown
        # Nor in another form of the same.
        assert secret.encode().hex() not in shown


SCRIPTS: dict[str, Sequence[Reply]] = {
    "success": [answered(batch_answer(EVENTS[:2]))],
    "echoed by the results": [
        answered(
            encode_value({"results": [item_map(each) | {"step": {"x": PAYLOAD}} for each in EVENTS[:2]]})
        )
    ],
    "throttled": [throttled("2"), throttled("31")],
    "refused": [refusal(404), refusal(409), refusal(410), refusal(401)],
    "a page": [
        Reply(status=400, headers={"Content-Type": "text/html"}, body=f"<p>{TOKEN}{PAYLOAD}".encode())
    ],
    "garbage": [Reply(body=PAYLOAD.encode())],
    "challenge": [Reply(status=403, headers={"x-vercel-mitigated": "challenge"}, body=TOKEN.encode())],
    "redirect": [
        Reply(status=302, headers={"Location": f"https://login.test/sso?token={TOKEN}&x={PAYLOAD}"})
    ],
    "odd header": [Reply(status=429, headers={"Retry-After": TOKEN})],
    **{name: [reply] for name, (reply, _) in LOST.items()},
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_nothing_secret_is_told(script: Sequence[Reply], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedServer(script, repeat_last=True) as server:
        options = ClientOptions(clock=FakeClock())
        headers = {"x-secret": TOKEN, "Cookie": TOKEN}
        async with EventClient(server.origin, token=TOKEN, headers=headers, options=options) as client:
            check(client, client._endpoint, options, vars(client))
            for write in (client.create_batch(RUN, EVENTS), client.create(RUN, EVENTS[2])):
                try:
                    result = await write
                except EventClientError as error:
                    check(error, error.receipts, "".join(traceback.format_exception(error)), vars(error))
                else:
                    check(result, *([result] if isinstance(result, Receipt) else result))
        assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert PAYLOAD.encode() in server.requests[0].body
    check(caplog.text, *(record.args for record in caplog.records))


async def test_nothing_secret_is_told_of_a_server_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with refused_origin() as origin:
        client = EventClient(origin, token=TOKEN, options=ClientOptions(clock=FakeClock()))
        with pytest.raises(EventClientError) as raised:
            await client.create_batch(RUN, EVENTS)
        await client.aclose()
    check(caplog.text, raised.value, raised.value.receipts, "".join(traceback.format_exception(raised.value)))


async def test_nothing_secret_is_told_of_a_cancelled_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedServer([Reply(fault=Fault.NEVER)]) as server:
        client = EventClient(server.origin, token=TOKEN)
        call = asyncio.ensure_future(client.create_batch(RUN, EVENTS))
        await server.arrival(1)
        left = await client.aclose(within=0)
        with pytest.raises(EventClientError) as raised:
            await call
    check(caplog.text, left, raised.value, raised.value.receipts)


async def test_a_log_is_read_without_telling_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        ScriptedServer([log_reply(PAYLOAD.encode()), refusal(404)]) as server,
        EventClient(server.origin, token=TOKEN, options=ClientOptions(clock=FakeClock())) as client,
    ):
        for read in (client.read_log(RUN), client.get_event(RUN, "evnt_1")):
            with pytest.raises(EventClientError) as raised:
                await read
            check(raised.value, "".join(traceback.format_exception(raised.value)))
    check(caplog.text)


# -- redirects ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://other.test/api", "https://other.test/api"),
        (f"https://login.test/sso?url=x&token={TOKEN}", "https://login.test/sso"),
        (f"https://login.test/sso#token={TOKEN}", "https://login.test/sso"),
        (f"https://user:{TOKEN}@login.test/sso", "https://login.test/sso"),
        (f"/login?{TOKEN}", "/login"),
        (None, "no address"),
    ],
)
async def test_a_redirect_is_told_and_not_followed(status: int, location: str | None, told: str) -> None:
    headers = {} if location is None else {"Location": location}
    async with ScriptedServer([Reply(status=status, headers=headers)], repeat_last=True) as server:
        async with EventClient(server.origin, token=TOKEN) as client:
            for call in (
                client.create_batch(RUN, steps(2)),
                client.create(RUN, steps(1)[0]),
                client.read_log(RUN),
            ):
                with pytest.raises(ConfigurationError) as raised:
                    await call
                assert f"{status} points to {told}. Redirects are not followed" in str(raised.value)
                assert {receipt.outcome.value for receipt in raised.value.receipts} <= {"unsent"}
        assert len(server.requests) == 3


async def test_a_message_of_the_server_is_told_up_to_a_length() -> None:
    body = json.dumps({"message": "why " * 1000}).encode()
    async with ScriptedServer([Reply(status=410, body=body)]) as server:
        async with EventClient(server.origin) as client:
            with pytest.raises(EventClientError, match="why why") as raised:
                await client.create(RUN, steps(1)[0])
        assert len(str(raised.value)) < 700
