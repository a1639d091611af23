"""Inputs for the request path, made from plain bytes: whoever chooses the bytes, a property test or a fuzzer
that follows coverage, chooses the request.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeVar

from eventclient.model.event_specs import EVENT_SPECS
from eventclient.wire.frames import encode_frame
from eventclient.wire.items import encode_text
from tests.support import vectors

T = TypeVar("T")

RUNS: Final = ("wrun_fuzz", "wrun_ended", "wrun_absent")
"""A run that is running, one that has ended, and one that is not there."""
META_KEYS: Final = (
    *("eventType", "specVersion", "correlationId", "occurredAt", "remoteRefBehavior", "resumeId"),
    *(
        "resumePayloadDigest",
        "sinceCursor",
        "skipPreload",
        "maxSlot",
        "stepName",
        "workflowName",
        "hookToken",
    ),
    *("deploymentId", "executionContext", "attributes", "changes", "writer", "resumeAt", "retryAfter"),
    *(
        "errorCode",
        "cancelReason",
        "token",
        "hookTokenRetentionUntil",
        "hookIsWebhook",
        "encryptionPublicKey",
    ),
    *("eventData", "input", "output", "error", "result", "metadata", "payload", "runIds", "ids", "runId"),
    *("allowReservedAttributes", "vercelId", "viaStepDispatch", "", "__proto__", "\ud7ff", "x" * 300),
)
TEXTS: Final = (
    *(
        "",
        "s1",
        "s2",
        "w1",
        "h1",
        "x" * 256,
        "x" * 257,
        "..",
        "a/b",
        "a\x00b",
        "\r\n",
        "\u202e",
        "\U0001f600",
    ),
    *("resolve", "lazy", "eid:evnt_00000000000000000000000001", "eid:", "evnt_1", "2026-01-01T00:00:00Z"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z", "-1", "1e999", "devl", "wrun_fuzz"),
)
SEGMENTS: Final = (
    *(
        "wrun_fuzz",
        "wrun_ended",
        "wrun_absent",
        "batch",
        "create",
        "s1",
        "run_created",
        "step_created",
        "..",
        ".",
    ),
    *(
        "%2e%2e",
        "%2f",
        "%00",
        "%ff",
        "%c0%80",
        "%0d%0a",
        "%",
        "%zz",
        "",
        "x" * 257,
        "a;b",
        "%E2%80%AE",
        "*",
        "~",
    ),
    *(
        "evnt_00000000000000000000000001",
        "evnt_00000000000000000000000000",
        "by-token",
        "\x7f",
        "\xe9",
        "\xff",
    ),
)
PATHS: Final[Sequence[tuple[str, str]]] = (
    ("POST", "/api/v4/runs/{}/events/batch"),
    ("POST", "/api/v4/runs/{}/events/{}"),
    ("POST", "/api/v4/runs/{}/events"),
    ("GET", "/api/v4/runs/{}/events"),
    ("GET", "/api/v4/runs/{}/events/{}"),
    ("GET", "/api/v4/events"),
    ("POST", "/api/v4/runs/cancel"),
    ("POST", "/api/v3/runs/{}/events"),
    ("GET", "/api/v3/runs/{}/events"),
    ("GET", "/api/v3/runs/{}/stream/closed"),
    ("PUT", "/api/v2/runs/{}/stream/{}"),
    ("GET", "/api/v2/runs/{}/streams"),
    ("GET", "/api/v2/runs/{}/streams/{}/info"),
    ("GET", "/api/v2/runs/{}/streams/{}/chunks"),
    ("GET", "/api/v2/runs"),
    ("GET", "/api/v2/runs/{}"),
    ("GET", "/api/v2/runs/{}/status"),
    ("GET", "/api/v2/runs/{}/steps"),
    ("GET", "/api/v2/runs/{}/steps/{}"),
    ("GET", "/api/v2/hooks"),
    ("GET", "/api/v2/hooks/by-token"),
    ("GET", "/api/v2/hooks/{}"),
    ("POST", "/api/v2/runs/create"),
    ("PUT", "/api/v2/runs/{}/cancel"),
    ("POST", "/api/v2/runs/{}/events"),
    ("GET", "/__faults"),
    ("GET", "/__runs"),
    ("GET", "/__runs/{}"),
    ("GET", "/healthz"),
    ("GET", "/"),
)
QUERY_KEYS: Final = (
    *("limit", "cursor", "sortOrder", "returnAll", "remoteRefBehavior", "runId", "correlationId", "token"),
    *("startIndex", "status", "workflowName", "waitMs", "after", "first", "", "%00"),
)
QUERY_TEXTS: Final = (
    *(
        "",
        "0",
        "1",
        "-1",
        "1000",
        "99999999999999999999",
        "asc",
        "desc",
        "true",
        "lazy",
        "resolve",
        "%ff",
        "%",
    ),
    *("eid:evnt_00000000000000000000000001", "eid:", "wrun_fuzz", "s1", "\u0661", "1.5", "+", "&", "x" * 500),
)
HOSTED_GET: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
HEADERS: Final = (
    ("Accept", "application/vnd.workflow.v4-frames"),
    ("Accept", "application/cbor"),
    ("Accept", "\xff"),
    ("Content-Type", "application/cbor"),
    ("Content-Type", "\x80; charset=\xff"),
    ("Content-Type", "application/json"),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "identity"),
    ("X-Stream-Multi", "true"),
    ("X-Stream-Done", "true"),
    ("X-Request-Time", "soon"),
    ("Authorization", "Bearer \xe9"),
    ("Expect", "100-continue"),
    ("Expect", "more"),
    ("Upgrade", "h2c"),
    ("Connection", "close"),
    ("Range", "bytes=0-1"),
    ("If-None-Match", '"x"'),
    ("Cookie", "a=b; c"),
    ("X-Long", "x" * 9000),
    ("Origin", "http://evil.example"),
    ("Origin", "http://localhost:3000"),
    ("Host", "evil.example"),
)


@dataclass(frozen=True, slots=True)
class Shot:
    """What is sent at once.

    Attributes:
        framed: it is one request, well formed below its contents, and is to meet one answer.
    """

    data: bytes
    framed: bool
    method: str = ""
    path: str = ""


@dataclass(slots=True)
class Choices:
    """Choices that bytes make; all of them the first when the bytes have run out."""

    data: bytes
    at: int = 0
    budget: int = field(default=4000)

    def number(self, below: int) -> int:
        size = 1 if below <= 256 else 2
        piece = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(piece, "big") % below

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.number(len(choices))]

    def piece(self, most: int) -> bytes:
        size = self.number(most + 1)
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def odds(self, one_in: int) -> bool:
        return self.number(one_in) == one_in - 1

    def spend(self) -> bool:
        """Whether there is still room for another item."""
        self.budget -= 1
        return self.budget > 0


def make_shot(data: bytes) -> Shot:
    """The input that `data` stands for."""
    choices = Choices(data)
    kind = choices.pick(KINDS)
    return kind(choices)


# -- the kinds of input ------------------------------------------------------------------------


def _garbage(choices: Choices) -> Shot:
    start = choices.pick(
        (
            b"",
            b"GET ",
            b"POST / HTTP/1.1\r\n",
            HOSTED_GET,
            b"PRI * HTTP/2.0\r\n",
        )
    )
    return Shot(start + choices.data[choices.at :], framed=False)


def _broken_body(choices: Choices) -> Shot:
    head = b"POST /api/v4/runs/wrun_fuzz/events/batch HTTP/1.1\r\nHost: localhost\r\n"
    length = choices.pick(
        (b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Content-Length: x", b"Content-Length: 999")
    )
    return Shot(head + length + b"\r\n\r\n" + choices.data[choices.at :], framed=False)


def _mutated_vector(choices: Choices) -> Shot:
    method, path, body = choices.pick(_captured())
    mutated = bytearray(body)
    for _ in range(1 + choices.number(6)):
        _mutate(mutated, choices)
    return _request(choices, method, path, bytes(mutated))


def _mutate(data: bytearray, choices: Choices) -> None:
    at = choices.number(min(len(data), 400) + 1)
    match choices.number(6):
        case 0:
            data[at : at + 1] = bytes((choices.number(256),))
        case 1:
            data[at:at] = choices.piece(8)
        case 2:
            del data[at : at + 1 + choices.number(16)]
        case 3:
            del data[at:]
        case 4:
            data[at:at] = data[at : at + choices.number(64)]
        case _:
            data[at : at + 4] = struct.pack(">I", choices.pick((0, 1, 2**31, 2**32 - 1, len(data), 70_000)))


def _framed(choices: Choices) -> Shot:
    frames = bytearray()
    route = choices.pick(PATHS[:3])
    usual_count = 1 if route is not PATHS[0] else 1 + choices.number(4)
    for _ in range(choices.number(4) if choices.odds(10) else usual_count):
        meta = _cbor_map(choices, META_KEYS, events=True)
        body = choices.pick((b"", b"devl", b"\xff" * 100, choices.piece(20)))
        frames += encode_frame(meta, body)
    if choices.odds(10):
        _mutate(frames, choices)
    method, path = _path(choices, route)
    return _request(choices, method, path, bytes(frames))


def _cbor_post(choices: Choices) -> Shot:
    method, path = _path(choices, choices.pick([each for each in PATHS[3:] if each[0] != "GET"]))
    body = _cbor_map(choices, META_KEYS, events=True)
    return _request(choices, method, path, body if not choices.odds(10) else choices.piece(60) + body)


def _anything(choices: Choices) -> Shot:
    method, path = _path(choices, choices.pick(PATHS))
    if choices.odds(8):
        method = choices.pick(("HEAD", "OPTIONS", "PATCH", "DELETE", "TRACE", "PUT", "POST", "GET"))
    if choices.odds(8):
        path = "/" + "/".join(choices.pick(SEGMENTS) for _ in range(choices.number(8)))
    pairs = [f"{choices.pick(QUERY_KEYS)}={choices.pick(QUERY_TEXTS)}" for _ in range(choices.number(5))]
    if pairs:
        path += "?" + "&".join(pair for pair in pairs if not pair.startswith("waitMs") or pair[-1] in "=01")
    body = choices.piece(60) if choices.odds(4) else b""
    return _request(choices, method, path, body)


KINDS: Final[Sequence[Callable[[Choices], Shot]]] = (
    *(_anything, _framed, _framed, _framed, _mutated_vector, _mutated_vector, _cbor_post, _cbor_post),
    *(_garbage, _broken_body),
)


def _path(choices: Choices, route: tuple[str, str]) -> tuple[str, str]:
    method, template = route
    parts = template.split("{}")
    path = parts[0]
    for number, part in enumerate(parts[1:]):
        odd = choices.odds(8)
        usual = RUNS if number == 0 else ("s1", "step_created", "closed", "evnt_00000000000000000000000001")
        path += (choices.pick(SEGMENTS) if odd else choices.pick(usual)) + part
    return method, path


def _request(choices: Choices, method: str, path: str, body: bytes) -> Shot:
    # What would end the request line belongs to the inputs that are no requests.
    path = path.replace(" ", "%20").replace("\r", "").replace("\n", "")
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    for _ in range(choices.number(3) if choices.odds(3) else 0):
        name, value = choices.pick(HEADERS)
        lines.append(f"{name}: {value}")
    head = "\r\n".join(lines).encode("utf-8" if choices.odds(8) else "latin-1", "replace")
    if body and choices.odds(6):
        half = len(body) // 2
        pieces = [piece for piece in (body[:half], body[half:]) if piece]
        sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        return Shot(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + sent, True, method, path)
    length = b"\r\nContent-Length: %d" % len(body) if body or method in ("POST", "PUT") else b""
    return Shot(head + length + b"\r\n\r\n" + body, True, method, path)


@cache
def _captured() -> list[tuple[str, str, bytes]]:
    """Requests of the published client, and frames it was answered with, sent where they do not belong."""
    found = []
    for name in vectors.names("requests"):
        request = vectors.load("requests", name).get("request")
        if request is not None and request.get("body_base64") is not None:
            body = base64.b64decode(request["body_base64"])
            if len(body) < 20_000:
                path = re.sub("/runs/[^/]+", "/runs/wrun_fuzz", request["path"])
                found.append((request["method"], path.encode("ascii", "ignore").decode(), body))
    batch = ("POST", "/api/v4/runs/wrun_fuzz/events/batch")
    for file in sorted((vectors.FOLDER / "frames").glob("*.bin")):
        body = file.read_bytes()
        if len(body) < 20_000:
            found.append((*batch, body))
    assert len(found) > 200
    return found


# -- CBOR --------------------------------------------------------------------------------------


def _cbor_map(choices: Choices, keys: Sequence[str], *, events: bool = False) -> bytes:
    """A map that looks like a meta: mostly known keys, mostly values of the right kind."""
    pairs = []
    if events and not choices.odds(10):
        kind = choices.pick((*sorted(EVENT_SPECS), "noop", "hook_conflict", "", "x" * 100))
        pairs.append(encode_text("eventType") + encode_text(kind))
        names = TEXTS if choices.odds(4) else ("s1", "s2", "w1", "h1")
        pairs.append(encode_text("correlationId") + encode_text(choices.pick(names)))
        pairs.append(encode_text("specVersion") + bytes((choices.number(10) if choices.odds(4) else 7,)))
        if not choices.odds(3):
            pairs += _needed(choices, kind)
    for _ in range(choices.number(8)):
        key = choices.pick(keys)
        pairs.append(encode_text(key) + (_cbor(choices, 0) if choices.odds(6) else _usual(choices, key)))
    return _head(choices, 5, len(pairs)) + b"".join(pairs)


def _needed(choices: Choices, kind: str) -> list[bytes]:
    """What an event of the kind cannot do without, of the right kind."""
    keys = {
        "run_created": ("deploymentId", "workflowName"),
        "step_created": ("stepName",),
        "wait_created": ("resumeAt",),
        "hook_created": ("hookToken",),
        "attr_set": ("changes", "writer"),
    }.get(kind, ())
    return [encode_text(key) + _usual(choices, key) for key in keys]


def _usual(choices: Choices, key: str) -> bytes:
    """A value of the kind that `key` has."""
    if key.endswith(("At", "Until", "After")):
        return choices.pick(
            (
                b"\xc1\x1a\x65\x53\xf1\x00",
                b"\xc1\xfb"
                + struct.pack(">d", choices.pick((1.7e9, -6e10, 2.6e11, float("nan"), 1e300, -0.0))),
                b"\xc0" + encode_text(choices.pick(TEXTS)),
                encode_text(choices.pick(TEXTS)),
                b"\x1b" + struct.pack(">Q", choices.pick((0, 1_700_000_000_000, 2**63, 2**64 - 1))),
            )
        )
    if key in ("eventData", "executionContext", "attributes"):
        return _cbor_map(choices, META_KEYS)
    if key in ("changes", "runIds", "ids"):
        items = [
            _cbor_map(choices, ("key", "value", "x"))
            if key == "changes"
            else encode_text(choices.pick(TEXTS))
            for _ in range(choices.number(4))
        ]
        return _head(choices, 4, len(items)) + b"".join(items)
    if key == "writer":
        return _cbor_map(choices, ("type", "stepId", "workflow"))
    if key in ("maxSlot", "specVersion"):
        return choices.pick(
            (b"\x00", b"\x07", b"\x18\x64", b"\xfb" + struct.pack(">d", 2.0**60), b"\x20", b"\xf7")
        )
    return choices.pick(
        (encode_text(choices.pick(TEXTS)), b"\xf5", b"\xf6", b"\xf7", b"\x44devl", b"\xd8\x40\x44devl")
    )


def _cbor(choices: Choices, depth: int) -> bytes:
    """Any item, broken ones among them."""
    if not choices.spend():
        return b"\x00"
    kind = choices.number(14)
    if kind < 2:
        return _number(choices, kind)
    if kind < 4:
        text = choices.piece(20) if kind == 2 else choices.pick(TEXTS).encode()
        return _head(choices, kind, len(text)) + text
    if kind in (4, 5):
        count = choices.number(4) if depth < 6 else 0
        items = b"".join(_cbor(choices, depth + 1) for _ in range(count * (kind - 3)))
        return _head(choices, kind, count) + items
    if kind == 6:
        tag = choices.pick(
            (0, 1, 2, 3, 4, 5, 24, 25, 28, 29, 30, 35, 36, 37, 64, 100, 256, 258, 260, 1004, 43000, 55799)
        )
        return _head(choices, 6, tag) + _cbor(choices, depth + 1)
    if kind == 7:
        return choices.pick(
            (
                b"\xf4",
                b"\xf5",
                b"\xf6",
                b"\xf7",
                b"\xf0",
                b"\xf8\xff",
                b"\xff",
                b"\xf9\x7e\x00",
                b"\xfa\x7f\x80\0\0",
            )
        )
    if kind == 8:
        return b"\xfb" + (choices.piece(8) + b"\0" * 8)[:8]
    if kind == 9:
        return (
            choices.pick((b"\x81", b"\xa1ax", b"\xc1", b"\x9f", b"\xd8\x1c\x81"))
            * choices.pick((3, 65, 399, 401, 5000))
            + b"\x01"
        )
    if kind == 10:
        return choices.pick((b"\x5f", b"\x7f", b"\x9f", b"\xbf")) + choices.piece(12) + b"\xff"
    if kind == 11:
        return choices.pick(
            (
                b"\x5b\x10\0\0\0\0\0\0\0",
                b"\x9b" + b"\xff" * 8,
                b"\xba\xff\xff\xff\xff",
                b"\x7a\x7f\xff\xff\xff",
            )
        )
    if kind == 12:
        return b"\xd8\x1c\x82" * 40 + b"\x80" + b"\xd8\x1d\x00" * 40
    return choices.piece(12)


def _number(choices: Choices, major: int) -> bytes:
    return _head(
        choices,
        major,
        choices.pick((0, 1, 7, 23, 24, 255, 256, 65536, 2**31, 2**32, 2**53, 2**63, 2**64 - 1)),
    )


def _head(choices: Choices, major: int, value: int) -> bytes:
    """The head of an item; a few are longer than they need be, a few say something else."""
    odd = choices.number(128)
    if odd == 126:
        value = choices.pick((0, 1, 1000, 2**32, 2**64 - 1))
    if odd == 127 or value >= 2**32:
        return bytes((major << 5 | 27,)) + value.to_bytes(8, "big")
    if value < 24:
        return bytes((major << 5 | value,))
    if value < 0x1_0000:
        return bytes((major << 5 | 25,)) + value.to_bytes(2, "big")
    return bytes((major << 5 | 26,)) + value.to_bytes(4, "big")
