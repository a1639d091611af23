"""The faults of a drill, and the ways in which each of them comes: two tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Fault(StrEnum):
    """What befalls an operation."""

    ANSWER_LOST = "answer_lost"
    DUPLICATE = "duplicate"
    CRASH = "crash"
    KEY_REUSE = "key_reuse"
    IMPATIENCE = "impatience"


class Way(StrEnum):
    """How it befalls the operation."""

    LOST_ONCE = "the answer is lost"
    LOST_TWICE = "two answers are lost"
    IN_TURN = "delivered twice, one after the other"
    AT_ONCE = "delivered twice at once"
    LATE_ZOMBIE = "the holder stalls beyond its lease and commits when the client has its answer"
    RACING_ZOMBIE = "the holder stalls beyond its lease and commits while the next one does"
    HOLDER_LOST = "the holder is lost"
    OTHER_PAYLOAD = "another payload follows under the key"
    GIVES_UP = "the client gives up before the server has executed it"
    DEADLINE_PASSES = "the server's deadline passes before it has executed it"


@dataclass(frozen=True, slots=True)
class FaultFacts:
    """The facts about one fault.

    Attributes:
        title: what it is called in a table.
        ways: by turns.
        elsewhere: the ways that need no hold on the server, for a server that is somebody else's.
    """

    title: str
    ways: tuple[Way, ...]
    elsewhere: tuple[Way, ...]


_LOST: Final = (Way.LOST_ONCE, Way.LOST_TWICE)
_TWICE: Final = (Way.IN_TURN, Way.AT_ONCE)

FAULTS: Final[Mapping[Fault, FaultFacts]] = MappingProxyType(
    {
        Fault.ANSWER_LOST: FaultFacts("answer lost after commit", _LOST, _LOST),
        Fault.DUPLICATE: FaultFacts("duplicate delivery", _TWICE, _TWICE),
        Fault.CRASH: FaultFacts(
            "crash between claim and commit",
            (Way.LATE_ZOMBIE, Way.HOLDER_LOST, Way.RACING_ZOMBIE, Way.HOLDER_LOST),
            (),
        ),
        Fault.KEY_REUSE: FaultFacts(
            "same key with another payload", (Way.OTHER_PAYLOAD,), (Way.OTHER_PAYLOAD,)
        ),
        Fault.IMPATIENCE: FaultFacts(
            "client timeout shorter than the execution", (Way.GIVES_UP, Way.DEADLINE_PASSES), (Way.GIVES_UP,)
        ),
    }
)
"""One row per fault."""

FAULT_OF: Final[Mapping[Way, Fault]] = MappingProxyType(
    {way: fault for fault, facts in FAULTS.items() for way in facts.ways}
)
ZOMBIES: Final = frozenset({Way.LATE_ZOMBIE, Way.RACING_ZOMBIE})
