"""Idempotency keys: one a request, minted before its first attempt, the same with every attempt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from eventclient import ClientOptions, ConfigurationError, EventClient
from eventclient.wire.spec import HEADER_KEY
from tests.support.scripted_server import Reply

from .answers import answered, batch_answer, log_of, refusal, single_answer
from .keyed import deadline, keys_of, supporting
from .samples import RUN, event, steps
from .stage import Honest, stage
from .write_rows import RESET, SUBJECTS, Subject, throttled


def counting() -> Callable[[], str]:
    numbers = iter(range(1, 1000))
    return lambda: f"k{next(numbers)}"


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
async def test_every_attempt_carries_the_one_key_of_its_request(subject: Subject) -> None:
    failures = [
        throttled("1"),
        supporting(Reply(status=503)),
        deadline("1"),
        supporting(RESET),
        throttled("2"),
    ]
    async with stage([*failures, supporting(subject.success)], mint_key=counting()) as it:
        await subject.write(it.client)
        assert keys_of(it.server.requests) == ['"k1"'] * 6
        assert it.server.identical_bodies


async def test_every_request_has_a_key_of_its_own() -> None:
    events = [*steps(5), event("hook_created", "h"), *steps(2, 5)]
    async with stage(Honest(), max_batch_events=2, mint_key=counting()) as it:
        await it.client.create_batch(RUN, events)
        await it.client.create(RUN, event("run_completed"))
        keys = keys_of(it.server.requests)
        assert keys == [f'"k{number}"' for number in range(1, len(keys) + 1)]
        assert len(keys) == 6


async def test_single_posts_in_place_of_a_batch_have_their_own() -> None:
    events = steps(3)
    singles = [answered(single_answer(each)) for each in events]
    async with stage([refusal(404), *singles], mint_key=counting()) as it:
        await it.client.create_batch(RUN, events)
        assert keys_of(it.server.requests) == ['"k1"', '"k2"', '"k3"', '"k4"']


async def test_the_key_is_minted_before_the_first_attempt_and_never_again() -> None:
    minted: list[int] = []

    def mint() -> str:
        minted.append(len(it.server.requests))
        return "k"

    async with stage([RESET, throttled("1"), answered(batch_answer(steps(2)))], mint_key=mint) as it:
        await it.client.create_batch(RUN, steps(2))
    assert minted == [0]


async def test_by_default_keys_are_random_and_long() -> None:
    async with stage(Honest()) as it:
        for number in range(20):
            await it.client.create(RUN, event("step_created", f"s{number}"))
        keys = keys_of(it.server.requests)
    assert len(set(keys)) == 20
    assert all(key and re.fullmatch(r'"[0-9a-f]{32}"', key) for key in keys)


async def test_reads_carry_none() -> None:
    async with stage([log_of(steps(1)), refusal(404)]) as it:
        await it.client.read_log(RUN)
        with pytest.raises(Exception, match="404"):
            await it.client.get_event(RUN, "evnt_1")
        assert keys_of(it.server.requests) == [None, None]


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("a", '"a"'),
        (" ~!#", '" ~!#"'),
        ('say "so"', r'"say \"so\""'),
        ("back\\slash", r'"back\\slash"'),
        ("x" * 255, f'"{"x" * 255}"'),
        ('"' * 255, '"' + r"\"" * 255 + '"'),
    ],
)
async def test_a_key_is_sent_as_a_quoted_string(key: str, sent: str) -> None:
    async with stage(Honest(), mint_key=lambda: key) as it:
        await it.client.create(RUN, event("step_created"))
        assert keys_of(it.server.requests) == [sent]


@pytest.mark.parametrize("key", ["", "x" * 256, "ä", "a\n", "a\x7f", "\t", None, 7, b"k"])
async def test_what_no_header_can_carry_is_not_sent(key: Any) -> None:
    async with stage([], mint_key=lambda: key) as it:
        for write in (it.client.create(RUN, event("step_created")), it.client.create_batch(RUN, steps(2))):
            with pytest.raises(ConfigurationError, match="mint_key") as raised:
                await write
            assert {receipt.outcome.value for receipt in raised.value.receipts} == {"unsent"}
        assert it.server.connections == 0


@pytest.mark.parametrize("name", [HEADER_KEY, HEADER_KEY.lower()])
def test_one_key_for_all_requests_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="mint_key"):
        EventClient("http://127.0.0.1:1", headers={name: '"k"'})


def test_how_keys_are_made_is_not_shown() -> None:
    assert "mint_key" not in repr(ClientOptions())
