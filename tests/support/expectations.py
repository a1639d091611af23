"""How a captured case ended for the published client, in the words of ours.

A table of deliberate differences changes single fields of an `End`; all else has to agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import BaseModel

from eventclient.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    EventClientError,
    FirewallChallengeError,
    HookNotFoundError,
    NotFoundError,
    PreconditionFailedError,
    ProtocolError,
    RejectedError,
    RunExpiredError,
    ThrottleError,
    TooEarlyError,
    TransportError,
)

from .calls import write_of
from .scripts import told
from .tagged_json import difference, read
from .vectors import load, matches, names

SHORTEST_WAIT_S: Final = 0.08
"""What is below is the time two requests take that follow one another at once."""
WAIT_TOLERANCE_S: Final = 0.25
"""The published client adds up to 0.05 s by itself; the rest is the machine the cases were taken on."""

_BY_CLASS: Final[Mapping[str, type[EventClientError]]] = {
    "EntityConflictError": ConflictError,
    "PreconditionFailedError": PreconditionFailedError,
    "RunExpiredError": RunExpiredError,
    "StreamExpiredError": RunExpiredError,
    "TooEarlyError": TooEarlyError,
    "ThrottleError": ThrottleError,
    "HookNotFoundError": HookNotFoundError,
    "StreamError": TransportError,
    "CorruptedEventLogError": ProtocolError,
    "Error": ProtocolError,
    "RangeError": ProtocolError,
    "TypeError": ProtocolError,
    "ZodError": ProtocolError,
    "IncompleteFrameError": ProtocolError,
}
_BY_CODE: Final[Mapping[str | None, type[EventClientError]]] = {
    "SCHEMA_VALIDATION": ProtocolError,
    "PARSE_ERROR": ProtocolError,
    "WORLD_CONTRACT_ERROR": ProtocolError,
    "TRANSPORT": TransportError,
}
_BY_STATUS: Final = {401: AuthenticationError, 403: AuthenticationError, 404: NotFoundError}
_OUTCOMES: Final[Mapping[type[EventClientError], str]] = {
    ConflictError: "conflict",
    TransportError: "unknown",
    ProtocolError: "unknown",
    ThrottleError: "unsent",
    FirewallChallengeError: "unsent",
    ConfigurationError: "unsent",
}
_CODE_DROPPED: Final = (
    ConflictError,
    PreconditionFailedError,
    RunExpiredError,
    TooEarlyError,
    ThrottleError,
    HookNotFoundError,
)
"""Errors in which the published client loses, or replaces, the code the server sent."""
_UNSAFE_TYPES: Final = frozenset({"step_started", "step_retrying", "hook_received"})
RESENT: Final[Mapping[str, Any]] = {"requests": 3, "waits": (0.1, 0.2)}
"""What becomes of a write that failed ambiguously and is safe to send again."""


@dataclass(frozen=True, slots=True)
class End:
    """How a call ends.

    Attributes:
        error: the class of what is raised; None when the call returns.
        status, code: of the error; a status of None is not looked at.
        returned: what came back, as the published client gave it.
        requests: how many were sent.
        waits: seconds between them, None where they could not be measured.
        outcome: of every event, when the request failed as a whole.
        fell_back: the refused batch is followed by a single post of each event.
    """

    error: type[EventClientError] | None
    status: int | None
    code: str | None
    returned: Any
    requests: int
    waits: tuple[float | None, ...]
    outcome: str | None
    fell_back: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """Where our client ends otherwise on purpose: the rule, and the fields of `End` it changes.

    `members` are changed in `End.returned`: a dotted path to the new value, None for none.
    """

    rule: str
    members: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


def differs(rule: str, *, members: Mapping[str, Any] | None = None, **changes: Any) -> Difference:
    """A row of a table of differences."""
    return Difference(rule, members or {}, changes)


def published_end(case: dict[str, Any]) -> End:
    """How `case` ended for the published client.

    One difference is no row of a table, because it goes through all of them: an answer that is malformed in
    any way leaves the outcome open, so a write that is safe to send again is. The published client does so
    only for some malformations. A server that says itself that it cannot answer is not asked again.
    """
    observed = case["observed"]
    waits = tuple(wait for wait in observed["waits_s"] if wait is None or wait >= SHORTEST_WAIT_S)
    if observed["outcome"] == "returned":
        return End(None, None, None, read(observed["returned"]), observed["requests"], waits, None)
    threw = observed["threw"]
    error = error_class(threw["class"], threw.get("status"), threw.get("code"))
    rejected = issubclass(error, RejectedError | ThrottleError | TransportError)
    code = told(case, "code") if issubclass(error, _CODE_DROPPED) else threw.get("code")
    end = End(
        error,
        threw.get("status") if rejected else None,
        None if code in _BY_CODE else code,
        None,
        observed["requests"],
        waits,
        _OUTCOMES.get(error, "rejected"),
    )
    malformed = error is ProtocolError and threw["class"] != "CorruptedEventLogError"
    if malformed and end.requests == 1 and safe_to_resend(case):
        return replace(end, **RESENT)
    return end


def safe_to_resend(case: dict[str, Any]) -> bool:
    """Whether the write of `case` leaves the same log when it is sent twice."""
    if case["call"]["method"] not in ("events.create", "events.createBatch"):
        return False
    write = write_of(case)
    types = {mapping["eventType"] for mapping in write.mappings}
    return not types & _UNSAFE_TYPES or "resume_payload_digest" in write.params


def error_class(name: str, status: int | None, code: str | None) -> type[EventClientError]:
    """Our class for what the published client throws."""
    if name in _BY_CLASS:
        return _BY_CLASS[name]
    assert name == "WorkflowWorldError", name
    if code in _BY_CODE:
        return _BY_CODE[code]
    assert status is not None
    if status < 400:
        return ConfigurationError
    return _BY_STATUS.get(status, RejectedError) if status < 500 else TransportError


def expected_end(case: dict[str, Any], table: Mapping[str, Difference]) -> End:
    """How our client has to end: as the published one but for the rows of `table` that cover the case."""
    end = published_end(case)
    for pattern in matches(case["id"], table):
        row = table[pattern]
        end = replace(end, **row.changes)
        for path, value in row.members.items():
            end = replace(end, returned=_with_member(end.returned, path, value))
    return end


def idle_rows(kind: str, table: Mapping[str, Difference]) -> list[str]:
    """The rows of `table` that cover no case, or one that ends for both clients alike."""
    cases = {name: load(kind, name) for name in names(kind)}
    return [
        pattern
        for pattern, row in table.items()
        if not (covered := [case for name, case in cases.items() if matches(name, [pattern])])
        or any(expected_end(case, {pattern: row}) == published_end(case) for case in covered)
    ]


def _with_member(returned: Any, path: str, value: Any) -> Any:
    returned = deepcopy(returned)
    *parents, last = path.split(".")
    place = returned
    for name in parents:
        place = place[int(name) if name.isdecimal() else name]
    place[last] = value
    return returned


def waits_differ(ours: list[float], theirs: tuple[float | None, ...]) -> str | None:
    """Where our waits are not those that were measured; None when they are."""
    if len(ours) != len(theirs):
        return f"{len(ours)} waits, not {len(theirs)}"
    for index, (mine, measured) in enumerate(zip(ours, theirs, strict=True)):
        if measured is not None and abs(mine - measured) > WAIT_TOLERANCE_S:
            return f"wait {index} is {mine}, not about {measured}"
    return None


def entity_differs(ours: BaseModel | None, theirs: Mapping[str, Any]) -> str | None:
    """Where an entity of ours is not what the published client returned; None when it is."""
    if ours is None:
        return "there is none"
    pairs = ours.model_dump(by_alias=True, exclude_none=True)
    known = {info.alias or name for name, info in type(ours).model_fields.items()}
    if not pairs.get("attributes") and not theirs.get("attributes"):
        known.discard("attributes")
    return difference(
        {key: value for key, value in pairs.items() if key in known},
        {key: value for key, value in theirs.items() if key in known and value is not None},
    )
