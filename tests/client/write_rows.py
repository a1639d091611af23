"""The rows of the table of writes: events, answers, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from typing import Any, Final

from eventclient import (
    AuthenticationError,
    ConfigurationError,
    EventClient,
    EventClientError,
    FirewallChallengeError,
    ProtocolError,
    Receipt,
    ThrottleError,
    TransportError,
)
from eventclient.model.events import Event
from eventclient.wire.codec import encode_value
from tests.support.scripted_server import Fault, Reply

from .answers import answered, batch_answer, refusal, single_answer
from .samples import NOW, RUN, event, pair, steps

# -- the events --------------------------------------------------------------------------------

STEP_WRITER: Final = {"type": "step", "stepId": "s", "attempt": 1}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is written: by `create_batch`, or by `create` with `params`."""

    events: Sequence[Event]
    converges: bool
    single: bool = False
    params: dict[str, Any] | None = None

    async def write(self, client: EventClient) -> list[Receipt]:
        if self.params is None:
            return list(await client.create_batch(RUN, self.events))
        return [await client.create(RUN, self.events[0], **self.params)]

    @property
    def success(self) -> Reply:
        return answered(single_answer(self.events[0]) if self.single else batch_answer(self.events))


def lone(kind: str, converges: bool, key: str | None = "c_1", **data: Any) -> Subject:
    return Subject([event(kind, key, **data)], converges, single=True)


RESUME: Final = {"resume_id": "res", "resume_payload_digest": "dig"}
SUBJECTS: Final[dict[str, Subject]] = {
    "batch of creates": Subject(steps(3), True),
    "batch with a pair": Subject([*steps(1), *pair()], False),
    "batch with a retry": Subject([*steps(1), event("step_retrying", "other")], False),
    "batch of ends": Subject([event("step_completed", "a"), event("wait_completed", "w")], True),
    "one of a batch": lone("step_created", True),
    "step_started": lone("step_started", False),
    "lazy step_started": lone("step_started", False, stepName="s", input=b"x"),
    "step_retrying": lone("step_retrying", False),
    "hook_received": lone("hook_received", False),
    "hook_received, half a pair": Subject([event("hook_received")], False, True, {"resume_id": "res"}),
    "hook_received, resume pair": Subject([event("hook_received")], True, True, RESUME),
    "run_created": lone("run_created", True),
    "run_started": lone("run_started", True),
    "run_cancelled": lone("run_cancelled", True),
    "hook_created": lone("hook_created", True),
    "attr_set": lone("attr_set", True),
    "attr_set of a step": lone("attr_set", False, None, writer=STEP_WRITER),
    "create": Subject(steps(1), True, True, {}),
    "create of a start": Subject([event("step_started")], False, True, {}),
}


# -- the answers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """Answers, and what comes of them.

    Attributes:
        first: the answers; a success follows unless `endless`.
        waits: seconds of each wait, on the way to the last request.
        error: what is raised; None when the write succeeds.
        ambiguous_error: if set, what is raised, after one request, where the events do not converge.
    """

    first: Sequence[Reply]
    waits: Sequence[float] = ()
    error: type[EventClientError] | None = None
    ambiguous_error: type[EventClientError] | None = None
    endless: bool = False


def throttled(*values: str, **headers: str) -> Reply:
    pairs = [("Retry-After", value) for value in values] + list(headers.items())
    return Reply(status=429, headers=pairs, body=b"slow down")


def date(seconds: float) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def challenged(status: int) -> Reply:
    return Reply(
        status=status, headers={"X-Vercel-Mitigated": "Challenge", "Retry-After": "1"}, body=b"<html>"
    )


RESET: Final = Reply(fault=Fault.RESET_BEFORE_RESPONSE)
DUPLICATE: Final = Reply(headers=[("Content-Length", "1"), ("Content-Length", "2")], close=True)
LOST: Final[dict[str, tuple[Reply, type[EventClientError]]]] = {
    **{str(status): (Reply(status=status), TransportError) for status in (500, 501, 502, 503, 504, 599)},
    "503 with Retry-After": (Reply(status=503, headers={"Retry-After": "7"}), TransportError),
    "503 with a code": (refusal(503, "batch-requires-slot-identity"), TransportError),
    "reset": (RESET, TransportError),
    "closed": (Reply(fault=Fault.CLOSE_BEFORE_RESPONSE), TransportError),
    "closed in the headers": (Reply(fault=Fault.CLOSE_MID_HEADERS), TransportError),
    "closed in the body": (Reply(body=b"x" * 50, fault=Fault.CLOSE_MID_BODY, fault_after=9), TransportError),
    "cut chunks": (Reply(body=b"x" * 50, fault=Fault.CLOSE_MID_CHUNKED, fault_after=9), TransportError),
    # aiohttp calls this a 400.
    "two lengths": (DUPLICATE, TransportError),
    "204": (Reply(status=204), ProtocolError),
    "empty 200": (Reply(), ProtocolError),
    "json": (Reply(body=b'{"results": []}'), ProtocolError),
    "login page": (Reply(headers={"Content-Type": "text/html"}, body=b"<title>Login"), ProtocolError),
    "no map": (answered(encode_value([])), ProtocolError),
    "no member": (answered(encode_value({})), ProtocolError),
}
FINAL: Final[dict[str, tuple[Reply, type[EventClientError]]]] = {
    "401": (refusal(401), AuthenticationError),
    "403": (refusal(403), AuthenticationError),
    **{
        str(status): (Reply(status=status, headers={"Location": "https://other.test/x"}), ConfigurationError)
        for status in (301, 302, 303, 307, 308)
    },
    "304": (Reply(status=304), ConfigurationError),
    **{
        f"challenge on {status}": (challenged(status), FirewallChallengeError)
        for status in (200, 403, 429, 503)
    },
}


def _rows() -> dict[str, Row]:
    rows: dict[str, Row] = {"200": Row([])}
    waits: list[tuple[list[str], float]] = [
        ([], 1),
        (["0"], 1),
        (["1"], 1),
        (["7"], 7),
        (["29"], 29),
        (["30"], 30),
        (["1.5"], 2),
        (["-1"], 1),
        (["garbage"], 1),
        (["nan"], 1),
        ([date(7)], 7),
        ([date(-7)], 1),
        (["2", "5"], 5),
    ]
    for values, wait_s in waits:
        rows[f"429, {values}"] = Row([throttled(*values)], [wait_s])
    for value in ("31", "3600", "9" * 5000, date(3600)):
        rows[f"429, {value[:30]}"] = Row([throttled(value)], [], ThrottleError)
    for value, wait_s, count in (("1", 1, 30), ("7", 7, 4), ("14", 14, 2), ("16", 16, 1), ("30", 30, 1)):
        rows[f"429 forever, {value}"] = Row([throttled(value)], [wait_s] * count, ThrottleError, endless=True)
    rows["429, denied by the firewall"] = Row([throttled("2", **{"x-vercel-mitigated": "deny"})], [2])
    for name, (reply, error) in LOST.items():
        rows[f"{name}, once"] = Row([reply], [0.1], ambiguous_error=error)
        rows[f"{name}, twice"] = Row([reply] * 2, [0.1, 0.2], ambiguous_error=error)
        rows[f"{name}, forever"] = Row([reply], [0.1, 0.2], error, error, endless=True)
    rows["lost, throttled, lost"] = Row([RESET, throttled("3"), RESET], [0.1, 3, 0.2], None, TransportError)
    for name, (reply, error) in FINAL.items():
        rows[name] = Row([reply], [], error)
    return rows


ROWS: Final = _rows()
