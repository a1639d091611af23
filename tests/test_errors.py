"""The error tree: what is below what, what each says, and that copies say the same."""

from __future__ import annotations

import copy
import pickle

import pytest

from eventclient import errors
from eventclient.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    EventClientError,
    FirewallChallengeError,
    HookNotFoundError,
    InvalidEventError,
    NotFoundError,
    PreconditionFailedError,
    ProtocolError,
    RejectedError,
    RunExpiredError,
    ThrottleError,
    TooEarlyError,
    TransportError,
    rejection,
)

ONE_OF_EACH: list[EventClientError] = [
    EventClientError("m", run_id="r", event_index=0),
    ConfigurationError("m"),
    InvalidEventError("why", field="eventData.input", event_index=3),
    TransportError("m", ambiguous=True, status=502, code="c", run_id="r"),
    ProtocolError("m", code="payload-missing", status=200),
    ThrottleError("m", retry_after=31.0, waited=2.0, budget=30.0),
    FirewallChallengeError("m", status=403),
    RejectedError("m", status=418, code="c", retry_after=1.0),
    AuthenticationError("m", status=401),
    NotFoundError("m", status=404),
    HookNotFoundError("m", status=404),
    ConflictError("m", status=409),
    RunExpiredError("m", status=410),
    PreconditionFailedError("m", status=412),
    TooEarlyError("m", status=425, retry_after=5.0),
]


def _classes() -> set[type]:
    return {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, EventClientError)
    }


def test_there_is_one_of_each_here() -> None:
    assert {type(error) for error in ONE_OF_EACH} == _classes()


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn = errors.__doc__ or ""
    for kind in _classes():
        assert f"{kind.__name__}" in drawn
        assert kind is EventClientError or issubclass(kind, EventClientError)


def test_only_refusals_are_below_rejected_error() -> None:
    below = {kind for kind in _classes() if issubclass(kind, RejectedError)}
    assert below == {
        RejectedError,
        AuthenticationError,
        NotFoundError,
        HookNotFoundError,
        ConflictError,
        RunExpiredError,
        PreconditionFailedError,
        TooEarlyError,
    }


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_a_copy_and_a_pickle_say_the_same(error: EventClientError) -> None:
    error.receipts = ("kept",)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(again) is type(error)
        assert again.__dict__ == error.__dict__
        assert str(again) == str(error)
        assert again.receipts == ("kept",)


@pytest.mark.parametrize(
    ("run_id", "index", "told"),
    [
        (None, None, "m"),
        ("r", None, "m [run r]"),
        (None, 0, "m [event 0]"),
        ("r", 2, "m [run r, event 2]"),
    ],
)
def test_an_error_says_where(run_id: str | None, index: int | None, told: str) -> None:
    assert str(EventClientError("m", run_id=run_id, event_index=index)) == told


def test_an_invalid_event_names_field_and_reason() -> None:
    error = InvalidEventError("is missing", field="eventData.input", run_id="r", event_index=3)
    assert (error.field, error.reason) == ("eventData.input", "is missing")
    assert str(error) == "eventData.input: is missing [run r, event 3]"


def test_a_protocol_error_is_ambiguous() -> None:
    assert ProtocolError("m").ambiguous is True


@pytest.mark.parametrize(
    ("status", "hook", "kind"),
    [
        (400, False, RejectedError),
        (401, False, AuthenticationError),
        (403, False, AuthenticationError),
        (404, False, NotFoundError),
        (404, True, HookNotFoundError),
        (405, False, RejectedError),
        (409, False, ConflictError),
        (409, True, ConflictError),
        (410, False, RunExpiredError),
        (412, False, PreconditionFailedError),
        (425, False, TooEarlyError),
        (499, True, RejectedError),
    ],
)
def test_the_status_decides_the_type_of_a_rejection(
    status: int, hook: bool, kind: type[RejectedError]
) -> None:
    error = rejection(status, "m", code="c", retry_after=2.0, hook=hook, run_id="r", event_index=1)
    assert type(error) is kind
    assert (error.status, error.code, error.retry_after) == (status, "c", 2.0)
    assert (error.run_id, error.event_index) == ("r", 1)
