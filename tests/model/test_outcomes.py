"""Outcomes, receipts and the result of a call."""

from __future__ import annotations

from typing import get_args

import pytest

from eventclient.errors import (
    ConflictError,
    EventClientError,
    HookNotFoundError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from eventclient.model.outcomes import (
    FAILURES,
    PERSISTED,
    Attempt,
    BatchResult,
    Outcome,
    Persisted,
    Receipt,
    is_hook_delivery,
)
from eventclient.model.results import Log, Result
from eventclient.telemetry.ledger import Ledger
from tests.client.answers import success_map
from tests.client.samples import TYPES, event


def receipt(
    outcome: Outcome, status: int | None = None, *, index: int = 0, kind: str = "step_created"
) -> Receipt:
    return Receipt(index, event(kind), outcome, Result(status, "c", "m"), "single", run_id="r")


def test_every_outcome_says_whether_it_is_persisted() -> None:
    assert set(PERSISTED) == set(Outcome)
    assert set(PERSISTED.values()) == set(get_args(Persisted))
    for outcome in Outcome:
        assert receipt(outcome).persisted == PERSISTED[outcome]


def test_the_golden_table_of_outcomes() -> None:
    assert {outcome.value: (PERSISTED[outcome], outcome in FAILURES) for outcome in Outcome} == {
        "created": ("yes", False),
        "already_applied": ("yes", False),
        "conflict": ("no", False),
        "rejected": ("no", True),
        "unknown": ("unknown", True),
        "unsent": ("no", True),
    }


@pytest.mark.parametrize(
    ("outcome", "status", "kind", "error"),
    [
        (Outcome.CONFLICT, 409, "step_created", ConflictError),
        (Outcome.REJECTED, 404, "step_created", NotFoundError),
        (Outcome.REJECTED, 404, "hook_received", HookNotFoundError),
        (Outcome.REJECTED, 404, "hook_created", NotFoundError),
        (Outcome.REJECTED, 418, "step_created", RejectedError),
        (Outcome.UNKNOWN, 500, "step_created", TransportError),
        (Outcome.UNSENT, None, "step_created", TransportError),
    ],
)
def test_a_receipt_knows_its_error(
    outcome: Outcome, status: int | None, kind: str, error: type[EventClientError]
) -> None:
    held = receipt(outcome, status, kind=kind, index=3)
    raised = held.error()
    assert type(raised) is error
    assert (raised.run_id, raised.event_index, raised.receipts) == ("r", 3, (held,))
    assert getattr(raised, "status", None) == status
    if isinstance(raised, TransportError):
        assert raised.ambiguous is (outcome is Outcome.UNKNOWN)


def test_a_receipt_says_what_its_result_says() -> None:
    told = success_map(event("step_started"))
    log = Log((), "c", False)
    result = Result(200, "c", "m", told, step_created=True, max_events=5, log=log)
    held = Receipt(0, event("step_started"), Outcome.CREATED, result)
    assert (held.status, held.code, held.message) == (200, "c", "m")
    assert (held.stored, held.step) == (result.stored, result.step)
    assert (held.run, held.hook, held.wait) == (None, None, None)
    assert (held.step_created, held.max_events, held.log) == (True, 5, log)


@pytest.mark.parametrize("kind", TYPES)
def test_only_deliveries_to_a_hook_miss_a_hook(kind: str) -> None:
    assert is_hook_delivery(event(kind)) is (kind in ("hook_received", "hook_disposed"))


def test_a_receipt_shows_neither_attempts_nor_payload() -> None:
    secret = "do-not-show-me"
    held = Receipt(
        0,
        event("step_created", input=secret.encode()),
        Outcome.CREATED,
        Result(200, body={"step": {"input": secret}}),
        "batch",
        (Attempt(1, 200, 0.0, 0.1, secret),),
    )
    assert secret not in repr(held) + repr(BatchResult("r", [held], Ledger()))


def mixed() -> BatchResult:
    statuses = {Outcome.CREATED: 200, Outcome.CONFLICT: 409, Outcome.REJECTED: 410, Outcome.UNKNOWN: 500}
    held = [receipt(outcome, statuses.get(outcome), index=i) for i, outcome in enumerate(Outcome)]
    return BatchResult("r", held, Ledger(requests=1))


def test_a_result_is_a_sequence_of_receipts() -> None:
    result = mixed()
    assert len(result) == len(Outcome)
    assert [held.outcome for held in result] == list(Outcome)
    assert result[1].outcome is Outcome.ALREADY_APPLIED
    assert [held.index for held in result[1:3]] == [1, 2]
    assert result[-1] in result
    assert result.index(result[2]) == 2


def test_a_result_sorts_its_receipts() -> None:
    result = mixed()
    assert [held.outcome for held in result.created] == [Outcome.CREATED]
    assert [held.outcome for held in result.conflicts] == [Outcome.CONFLICT]
    assert [held.outcome for held in result.failures] == [Outcome.REJECTED, Outcome.UNKNOWN, Outcome.UNSENT]


def test_the_first_failure_is_raised_with_all_receipts() -> None:
    result = mixed()
    with pytest.raises(RejectedError) as raised:
        result.raise_for_failures()
    assert raised.value.status == 410
    assert raised.value.event_index == 3
    assert raised.value.receipts == tuple(result)


def test_conflicts_are_no_failures() -> None:
    ordinary = [receipt(outcome) for outcome in Outcome if outcome not in FAILURES]
    BatchResult("r", ordinary, Ledger()).raise_for_failures()


def test_a_result_tells_its_counts() -> None:
    assert repr(BatchResult("r", [], Ledger())) == "<BatchResult run r: empty>"
    told = repr(BatchResult("r", [receipt(Outcome.CREATED)] * 2 + [receipt(Outcome.UNSENT)], Ledger()))
    assert told == "<BatchResult run r: 2 created, 1 unsent>"
