"""Answers that lack something, for the faults that give them."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from eventclient.wire import spec
from eventclient.wire.codec import decode, encode_value


def shortened(answer: web.Response) -> web.Response:
    """An answer without its last frame, result or entry, or its event; a refusal as it is."""
    body = answer.body if isinstance(answer.body, bytes) else b""
    if answer.content_type == spec.FRAMES_CONTENT_TYPE:
        answer.body = _without_last_frame(body)
    elif answer.content_type == spec.CBOR_CONTENT_TYPE:
        answer.body = encode_value(_without_last(decode(body)))
    elif answer.status == 200 and answer.content_type == "application/json":
        answer.body = json.dumps(_without_last(json.loads(body))).encode()
    return answer


def _without_last(value: Any) -> Any:
    """The value of an answer with one thing less, whatever it is made of."""
    if isinstance(value, list):
        return value[:-1] if value else {}
    for key in ("results", "data"):
        if value.get(key):
            return {**value, key: value[key][:-1]}
    gone = "event" if "event" in value else next(reversed(value), None)
    return {key: item for key, item in value.items() if key != gone}


def _without_last_frame(body: bytes) -> bytes:
    at = start = 0
    while at < len(body):
        start = at
        for _ in ("meta", "body"):
            at += spec.LENGTH_BYTES + int.from_bytes(body[at : at + spec.LENGTH_BYTES], "big")
    return body[:start]
