"""Writes that carry an idempotency key, delivered as often as one likes, and what may come back.

The names and numbers of the wire are written out here, so that no change of the server's own goes unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote

import pytest

from eventclient.devserver.hidden import HolderLostError
from eventclient.wire.codec import encode_value
from eventclient.wire.params import NO_PARAMS, WriteParams
from tests.devserver.api import AT, RUN, Answer, Api, event, frame

SUPPORT: Final = "Idempotency-Support"
REPLAYED: Final = "Idempotency-Replayed"
TOLD: Final = ("Content-Type", "Retry-After", "x-wf-event-id", "x-wf-max-events")
"""Headers that belong to what an answer says."""


@dataclass(frozen=True)
class Delivery:
    """A request, the same however often it is delivered.

    Attributes:
        path: from ``/api`` on.
        key: inside the quotes; None sends none.
    """

    path: str
    body: bytes
    key: str | None
    headers: Mapping[str, str] = field(default_factory=dict)

    async def to(self, api: Api) -> Answer:
        """Deliver it once more."""
        headers = dict(self.headers)
        if self.key is not None:
            headers["Idempotency-Key"] = f'"{self.key}"'
        answer = await api.request("POST", f"/api{self.path}", data=BytesIO(self.body), headers=headers)
        assert answer.headers[SUPPORT] == "true", answer
        return answer

    def without_key(self) -> Delivery:
        return replace(self, key=None)


def single(
    event_type: str,
    c: str | None = None,
    *,
    run: str = RUN,
    key: str | None = "k",
    params: WriteParams = NO_PARAMS,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Delivery:
    """One event as a frame."""
    body = frame(event(event_type, c, **fields), params)
    return Delivery(f"/v4/runs/{quote(run, safe='')}/events/{event_type}", body, key, headers or {})


def batch(*events: Mapping[str, Any], run: str = RUN, key: str | None = "k") -> Delivery:
    """Several events as frames."""
    body = b"".join(frame(mapping, batch=True) for mapping in events)
    return Delivery(f"/v4/runs/{quote(run, safe='')}/events/batch", body, key)


def flat(
    event_type: str,
    c: str | None = None,
    *,
    run: str = RUN,
    key: str | None = "k",
    data: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Delivery:
    """One event as a map."""
    value = {"eventType": event_type, "specVersion": 5, **fields, "eventData": dict(data or {})}
    if c is not None:
        value["correlationId"] = c
    headers = {"Accept": "application/cbor", "Content-Type": "application/cbor"}
    return Delivery(f"/v3/runs/{quote(run, safe='')}/events", encode_value(value), key, headers)


STEP: Final[dict[str, Any]] = {"stepName": "work", "input": b"devli"}
RETRYING: Final = event("step_retrying", "r", error=b"devle")
"""An event that is taken as often as it comes: nothing but a key keeps it from being doubled."""
UNGUARDED: Final = {
    "single": single("step_retrying", "r", error=b"devle"),
    "batch": batch(RETRYING, event("wait_completed", "nobody")),
    "flat": flat("step_retrying", "r", data={"error": b"devle"}),
}
"""Such an event over each of the routes."""
each_route = pytest.mark.parametrize(
    ("make_store", "kind"),
    [
        *(("memory", kind) for kind in UNGUARDED),
        ("file", "single"),
        ("postgres", "batch"),
    ],
    indirect=["make_store"],
)
"""A test of each of the `UNGUARDED`, and over each store of some of them."""


async def prepare(api: Api, run: str = RUN) -> None:
    """A run with a step ``r`` that runs."""
    await api.running_run(run)
    pair = [event("step_created", "r", stepName="work", input=b"devli"), event("step_started", "r")]
    assert (await api.batch(*pair, run=run)).statuses == [200, 200]


async def busy_run(api: Api, run: str = RUN) -> None:
    """A run with something of everything in a state from which it can go on."""
    await prepare(api, run)
    created = [event("step_created", "a", **STEP), event("wait_created", "v", resumeAt=AT)]
    assert (await api.batch(*created, run=run)).statuses == [200, 200]
    hook = await api.post("hook_created", "h", run=run, token=f"token-{run}", metadata=b"devlm")
    assert hook.status == 200


async def meddle(api: Api, run: str = RUN) -> None:
    """Others change everything there is of the run, and end it."""
    count = len(await api.log(run))
    retry_at = AT + timedelta(days=3650)
    await api.batch(
        event("step_created", "later", **STEP),
        event("step_started", "later"),
        event("step_started", "a"),
        event("step_retrying", "r", error=b"devle"),
        run=run,
    )
    writer = {"type": "workflow"}
    await api.post("attr_set", run=run, changes=[{"key": "others", "value": "9"}], writer=writer)
    await api.post("hook_received", "h", run=run, payload=b"devlq")
    await api.batch(
        event("step_retrying", "a", error=b"devle", retryAfter=retry_at),
        event("step_completed", "r", result=b"devlr"),
        event("run_completed", output=b"devlo"),
        run=run,
    )
    assert len(await api.log(run)) > count


async def retries(api: Api, run: str = RUN) -> int:
    """How often `UNGUARDED` had an effect."""
    return (await api.log(run)).count(("step_retrying", "r"))


def is_replayed(answer: Answer) -> bool:
    """Whether the server says that it gave this answer before."""
    told = answer.headers.get(REPLAYED)
    assert told in (None, "true")
    return told is not None


def check_executed(answer: Answer, status: int = 200) -> None:
    """An answer that was not given before."""
    assert answer.status == status, answer
    assert not is_replayed(answer), answer


def check_replay(answer: Answer, first: Answer) -> None:
    """The answer that was recorded, byte for byte."""
    assert is_replayed(answer), answer
    assert says(answer) == says(first)


def says(answer: Answer) -> tuple[int, bytes, list[str | None]]:
    """All that an answer tells."""
    return answer.status, answer.body, [answer.headers.get(name) for name in TOLD]


def is_in_progress(answer: Answer) -> bool:
    """Whether the server says that the request is still being executed; checked to be said whole."""
    if answer.status != 409 or not answer.json or answer.json["code"] != "request_in_progress":
        return False
    assert answer.headers["Retry-After"] == "1"
    assert not is_replayed(answer)
    assert answer.code == "request_in_progress"
    return True


def check_reused(answer: Answer) -> None:
    """A key that stands for another request."""
    assert (answer.status, answer.code) == (422, "idempotency_key_reuse"), answer
    assert "Retry-After" not in answer.headers
    assert not is_replayed(answer)


def check_one_truth(answers: Iterable[Answer]) -> Answer:
    """Of answers to deliveries of one write at most one was executed, and the others repeat it or say that
    it is under way; the answer."""
    told = [answer for answer in answers if not is_in_progress(answer)]
    assert len({answer.body for answer in told}) == 1, told
    assert sum(not is_replayed(answer) for answer in told) <= 1, told
    assert {answer.status for answer in told} == {200}
    return told[0]


async def collect(api: Api, delivery: Delivery) -> Answer:
    """Deliver again and again until the write is no longer under way."""
    for _ in range(1000):
        answer = await delivery.to(api)
        if not is_in_progress(answer):
            return answer
    raise AssertionError("the write is under way for ever")


class Hold:
    """Stops a holder between its claim and its commit."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


LOST: Final = "lost"
GOES_ON: Final = "goes on"


class Holders:
    """What becomes of those who claim a key, in the order in which they do; the rest go on.

    Attributes:
        claims: run id, key and token of each claim.
    """

    def __init__(self, *fates: Hold | str) -> None:
        self._fates = list(fates)
        self.claims: list[tuple[str, str, int]] = []

    async def __call__(self, run_id: str, key: str, token: int) -> None:
        self.claims.append((run_id, key, token))
        fate = self._fates.pop(0) if self._fates else GOES_ON
        if fate == LOST:
            raise HolderLostError
        if isinstance(fate, Hold):
            fate.reached.set()
            await fate.released.wait()

    @property
    def tokens(self) -> list[int]:
        return [token for _, _, token in self.claims]
