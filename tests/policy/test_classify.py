"""What an answer is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.policy.classify import STATUS_CLASSES, FailureClass, classify_answer
from eventclient.wire import spec

GOLDEN: dict[FailureClass | None, list[int]] = {
    None: [200, 201, 204, 299],
    FailureClass.REDIRECTED: [300, 301, 302, 303, 304, 307, 308, 399],
    FailureClass.REFUSED: [400, 401, 403, 404, 405, 409, 410, 412, 413, 418, 425, 428, 430, 499],
    FailureClass.THROTTLED: [429],
    FailureClass.AMBIGUOUS: [500, 501, 502, 503, 504, 505, 599, 100, 199, 600, 999, 0, -1],
}


@pytest.mark.parametrize(
    ("status", "failure"), [(status, failure) for failure, row in GOLDEN.items() for status in row]
)
def test_the_status_decides(status: int, failure: FailureClass | None) -> None:
    assert classify_answer(status, challenged=False) is failure


@given(st.integers())
def test_a_challenge_overrides_any_status(status: int) -> None:
    assert classify_answer(status, challenged=True) is FailureClass.CHALLENGED


def test_the_table_is_total_over_the_statuses_there_are() -> None:
    for status in range(200, 600):
        assert any(status in statuses for statuses, _ in STATUS_CLASSES)


PENDING = {504: spec.CODE_DEADLINE_EXCEEDED, 409: spec.CODE_IN_PROGRESS}


@pytest.mark.parametrize("status", sorted(PENDING))
def test_a_code_of_its_status_says_that_it_is_being_executed(status: int) -> None:
    def classified(code: str | None, *, challenged: bool = False) -> FailureClass | None:
        return classify_answer(status, challenged=challenged, code=code, pending_codes=PENDING)

    plain = classify_answer(status, challenged=False)
    assert classified(PENDING[status]) is FailureClass.PENDING
    assert classified(PENDING[status], challenged=True) is FailureClass.CHALLENGED
    for other in (None, "", "timeout", PENDING[status].upper(), PENDING[913 - status]):
        assert classified(other) is plain
    # Without a key there is nothing to collect.
    assert classify_answer(status, challenged=False, code=PENDING[status]) is plain


@pytest.mark.parametrize("code", sorted(PENDING.values()))
def test_a_code_of_another_status_says_nothing(code: str) -> None:
    for status in range(200, 600):
        if PENDING.get(status) != code:
            expected = classify_answer(status, challenged=False)
            assert classify_answer(status, challenged=False, code=code, pending_codes=PENDING) is expected


def test_every_class_is_met_by_an_answer_or_by_its_absence() -> None:
    met = {
        classify_answer(status, challenged=flag, code=PENDING.get(status), pending_codes=PENDING)
        for status in range(100, 700)
        for flag in (False, True)
    }
    assert set(FailureClass) - met == {FailureClass.NOT_SENT}
