"""Exit codes of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventclient.cli.failures import exit_code_of, failure_of, printable
from eventclient.errors import (
    AuthenticationError,
    ConfigurationError,
    EventClientError,
    FirewallChallengeError,
    InvalidEventError,
    ProtocolError,
    ThrottleError,
    TransportError,
)
from eventclient.recordings.rows import RecordingError
from eventclient.replay.replaying import RunTakenError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RecordingError(Path("x"), "no"), 2),
        (ConfigurationError("no"), 2),
        (InvalidEventError("no", field="event"), 2),
        (ThrottleError("no", retry_after=60, waited=0, budget=30), 3),
        (RunTakenError(["wrun_1"]), 1),
        (AuthenticationError("no", status=401), 1),
        (TransportError("no", ambiguous=True), 1),
        (ProtocolError("no"), 1),
        (FirewallChallengeError("no", status=429), 1),
        (EventClientError("no"), 1),
    ],
)
def test_every_error_has_its_code(error: EventClientError, code: int) -> None:
    assert exit_code_of(error) == code
    assert failure_of(error).exit_code == code


def test_a_taken_run_says_what_to_do() -> None:
    assert "--new-runs" in failure_of(RunTakenError(["wrun_1"])).message


def test_what_a_terminal_would_act_on_is_not_passed_on() -> None:
    assert (
        printable("a\x1b[31m\nü\udc80")
        == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}ü\N{REPLACEMENT CHARACTER}"
    )
