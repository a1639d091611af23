"""Answers that lack something."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from eventclient.devserver.shortened import shortened
from eventclient.wire.codec import decode, encode_value

SHORT: list[tuple[Any, Any]] = [
    ({"results": [1, 2]}, {"results": [1]}),
    ({"data": [{"a": 1}], "cursor": None, "hasMore": False}, {"data": [], "cursor": None, "hasMore": False}),
    ({"event": {}, "run": {"runId": "r"}}, {"run": {"runId": "r"}}),
    ({"data": [], "cursor": "c"}, {"data": []}),
    ({"tailIndex": 3, "done": True}, {"tailIndex": 3}),
    (["a", "b"], ["a"]),
    ([], {}),
    ({}, {}),
]


@pytest.mark.parametrize(("whole", "short"), SHORT)
def test_an_answer_of_any_form_has_one_thing_less(whole: Any, short: Any) -> None:
    cbor = shortened(web.Response(body=encode_value(whole), content_type="application/cbor"))
    assert isinstance(cbor.body, bytes)
    assert decode(cbor.body) == short
    text = shortened(web.json_response(whole))
    assert isinstance(text.body, bytes)
    assert json.loads(text.body) == short


def test_a_refusal_stays_as_it_is() -> None:
    refusal = web.json_response({"message": "m", "code": "c"}, status=409)
    before = refusal.body
    assert shortened(refusal).body == before
