"""What a test needs of the machine it runs on, and what happens where that is missing."""

from __future__ import annotations

import os
from typing import Final, NoReturn

import pytest

REQUIRE: Final = "EVENTCLIENT_REQUIRE"
"""Environment variable: what may not be missing, comma separated."""

ends_by_signal = pytest.mark.skipif(
    os.name == "nt", reason="ends a server process by a signal, which Windows only has as a kill"
)
needs_nonblocking_pipes = pytest.mark.skipif(os.name == "nt", reason="Windows cannot set a pipe non-blocking")


def missing(what: str, reason: str) -> NoReturn:
    """Skip the test, visibly; fail it where `what` is required."""
    required = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")}
    if what in required:
        pytest.fail(f"{reason}, and {REQUIRE} names {what}", pytrace=False)
    pytest.skip(reason)
