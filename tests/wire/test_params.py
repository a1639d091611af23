"""What a caller says beside an event is of the right type and in its range."""

from __future__ import annotations

from typing import Any

import pytest

from eventclient.errors import InvalidEventError
from eventclient.wire.params import NO_PARAMS, WriteParams


def test_nothing_said_is_taken() -> None:
    assert WriteParams() == NO_PARAMS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_id", "iad1::é"),
        ("resume_id", ""),
        ("event_count", 0),
        ("event_count", 2**53 - 1),
        ("resolve_data", "none"),
    ],
)
def test_what_fits_is_taken(name: str, value: Any) -> None:
    assert getattr(WriteParams(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("since_cursor", 5),
        ("request_id", "\ud800"),
        ("event_count", 2**53),
        ("replay_divergence_count", -1),
        ("resolve_data", "x"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidEventError) as refused:
        WriteParams(**{name: value})
    assert refused.value.field == name
