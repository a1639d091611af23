"""What is noted of an operation."""

from __future__ import annotations

import pytest

from eventclient.client.transport import Answer, Loss
from eventclient.drill.course import CURRENT, Courses, code_of, is_final

from .rows import RUN, answer, course, refusal

REPLAYED = {"Idempotency-Replayed": "true"}


@pytest.mark.parametrize(
    ("reply", "final"),
    [
        (answer(200), True),
        (refusal(409, "conflict"), True),
        (refusal(422, "idempotency_key_reuse"), True),
        (answer(500), False),
        (refusal(429, "throttled"), False),
        (refusal(503, "store-unavailable"), False),
        (refusal(409, "request_in_progress"), False),
        (refusal(504, "deadline_exceeded"), False),
        (Loss(sent=True, cause="gone"), False),
    ],
)
def test_what_is_final(reply: Answer | Loss, final: bool) -> None:
    assert is_final(reply) is final


def test_only_a_refusal_has_a_code() -> None:
    assert code_of(answer(200, b'{"code": "x"}', {"Content-Type": "application/json"})) is None
    assert code_of(refusal(409, "x")) == "x"


def test_steps_name_status_code_and_record() -> None:
    made = course()
    for reply in (
        Loss(sent=True, cause="connection lost"),
        refusal(409, "request_in_progress"),
        answer(200, b"a"),
        answer(200, b"a", REPLAYED),
    ):
        made.met(made.sent(), reply, "k")
    assert made.steps == [
        "delivery 1 is sent",
        "delivery 1: connection lost",
        "delivery 2 is sent",
        "delivery 2: 409 request_in_progress",
        "delivery 3 is sent",
        "delivery 3: 200",
        "delivery 4 is sent",
        "delivery 4: 200, from the record",
    ]
    assert (made.deliveries, made.replays) == (4, 1)
    assert made.complaints == []


@pytest.mark.parametrize("other", [answer(200, b"b"), answer(201, b"a")])
def test_one_key_has_one_answer(other: Answer) -> None:
    made = course()
    made.met(1, answer(200, b"a"), "k")
    made.met(2, other, "another key")
    assert made.complaints == []
    made.met(3, other, "k")
    assert made.complaints == ["delivery 3 got another answer than one before it"]


def test_a_request_has_a_key_of_its_own_and_the_key_finds_the_operation() -> None:
    first, second = course(index=0), course(index=1)
    courses = Courses([first, second])
    keys = []
    for made in (first, second, first):
        token = CURRENT.set(made)
        keys.append(courses.mint_key())
        CURRENT.reset(token)
    keys.append(courses.mint_key())
    assert len(set(keys)) == 4
    assert [courses.find(RUN, key) for key in keys] == [first, second, first, None]
    assert courses.find("wrun_other", keys[0]) is None
