"""The options of a client and their ranges."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from eventclient import NO_RETRY, ClientOptions, ConfigurationError
from eventclient.batching.chunks import BatchLimits
from eventclient.clock import SystemClock


@pytest.mark.parametrize(
    "name", ["connect_timeout_s", "read_timeout_s", "request_timeout_s", "list_timeout_s"]
)
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_every_timeout_is_finite_and_above_zero(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=name):
        ClientOptions(**options)


@pytest.mark.parametrize(
    "name", ["max_connections", "max_answer_bytes", "max_batch_events", "max_batch_bytes"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_every_limit_is_at_least_one(name: str, value: int) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=name):
        ClientOptions(**options)


def test_a_batch_has_a_hard_limit() -> None:
    assert ClientOptions(max_batch_events=50).limits == BatchLimits(max_events=50)
    with pytest.raises(ConfigurationError, match="max_batch_events"):
        ClientOptions(max_batch_events=51)


@pytest.mark.parametrize("connect_timeout_s", [60.0, 61.0])
def test_connecting_ends_before_the_request_does(connect_timeout_s: float) -> None:
    with pytest.raises(ConfigurationError, match="connect_timeout_s must be below"):
        ClientOptions(connect_timeout_s=connect_timeout_s, request_timeout_s=60.0)


def test_options_are_keywords_and_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ClientOptions(NO_RETRY)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClientOptions().batch = False  # type: ignore[misc]


def test_the_defaults() -> None:
    options = ClientOptions()
    assert (options.batch, options.allow_plain_http) == (True, False)
    assert options.limits == BatchLimits(max_events=32, max_bytes=768 * 1024)
    assert isinstance(options.clock, SystemClock)
    # Below the lease of five minutes under which callers run.
    assert options.request_timeout_s <= 60.0
