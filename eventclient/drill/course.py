"""How an operation goes, step by step."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from eventclient.client.transport import Answer, Loss
from eventclient.model.outcomes import Outcome
from eventclient.wire import spec
from eventclient.wire.responses import decode_refusal

from .plan import Operation


class Course:
    """The course of one operation, as the drill sees it from both ends.

    Attributes:
        run_id: the run it writes to.
        steps: what has happened, in order, for people.
        deliveries: how many requests went out under its key.
        replays: how many answers came from the record.
        losses: how many answers the drill threw away.
        tokens: of the claims of its key, in order.
        is_injected: its fault has happened.
        complaints: what was seen on the wire and must not be.
        outcomes: what the client says of each event; empty while it has not said.
        claimed: set when its key has been claimed.
        wake: set when a stalled holder is to go on.
    """

    def __init__(self, operation: Operation, run_id: str) -> None:
        self.operation = operation
        self.run_id = run_id
        self.steps: list[str] = []
        self.deliveries = 0
        self.replays = 0
        self.losses = 0
        self.tokens: list[int] = []
        self.is_injected = operation.way is None
        self.complaints: list[str] = []
        self.outcomes: tuple[Outcome, ...] = ()
        self.claimed = asyncio.Event()
        self.wake = asyncio.Event()
        self._keys = 0
        self._settled: dict[str | None, tuple[int, bytes]] = {}

    def tell(self, step: str) -> None:
        """Note a step."""
        self.steps.append(step)

    def mint(self) -> str:
        """A key for a request of this operation: another one for each, as a client must have it."""
        self._keys += 1
        name = self.operation.name
        return name if self._keys == 1 else f"{name}+{self._keys}"

    def sent(self) -> int:
        """Note that a request goes out; its number."""
        self.deliveries += 1
        self.tell(f"delivery {self.deliveries} is sent")
        return self.deliveries

    def met(self, number: int, reply: Answer | Loss, key: str | None) -> None:
        """Note what the delivery `number` met, which went out under `key`."""
        if isinstance(reply, Loss):
            self.tell(f"delivery {number}: {reply.cause}")
            return
        is_replay = reply.headers.get(spec.HEADER_KEY_REPLAYED) == spec.TRUE
        self.replays += is_replay
        code = code_of(reply)
        told = f"delivery {number}: {reply.status}" + (f" {code}" if code else "")
        self.tell(told + (", from the record" if is_replay else ""))
        if not is_final(reply):
            return
        settled = (reply.status, hashlib.sha256(reply.body).digest())
        if self._settled.setdefault(key, settled) != settled:
            self.complaints.append(f"delivery {number} got another answer than one before it")


def code_of(answer: Answer) -> str | None:
    """Why an answer refuses; None when it does not, or does not say."""
    if answer.status < 400:
        return None
    return decode_refusal(answer.headers.get("Content-Type", ""), answer.body).code


def is_final(reply: Answer | Loss) -> bool:
    """Whether `reply` settles the request: an answer, and none after which it is to be sent again."""
    if isinstance(reply, Loss) or reply.status == 429 or reply.status >= 500:
        return False
    return code_of(reply) != spec.CODE_IN_PROGRESS


CURRENT: Final[ContextVar[Course | None]] = ContextVar("course", default=None)
"""The operation the running task makes; None beside operations."""


class Courses:
    """All courses of a round, and which key belongs to which."""

    def __init__(self, courses: Sequence[Course]) -> None:
        self.all = tuple(courses)
        self._by_key: dict[tuple[str, str], Course] = {}

    def mint_key(self) -> str:
        """A key for the operation the running task makes, or for what is made beside operations."""
        course = CURRENT.get()
        if course is None:
            return secrets.token_hex(16)
        key = course.mint()
        self._by_key[course.run_id, key] = course
        return key

    def find(self, run_id: str, key: str) -> Course | None:
        """The operation a key belongs to."""
        return self._by_key.get((run_id, key))
