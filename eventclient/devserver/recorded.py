"""Answers as they are recorded under a key.

A record holds what cannot be had again: refusals, and the entities as they were then. Of the events it holds
their slots alone: their rows stay in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.codec import decode, encode_number, encode_value
from eventclient.wire.replies import Refused, Written, encode_array, encode_entities, encode_pairs

from .evaluation import Evaluation
from .ruling import Repeated, Ruling

E = TypeVar("E", Run, Step, Hook, Wait)


def encode_answer(evaluation: Evaluation, resolves: Sequence[bool]) -> bytes:
    """A record of `evaluation`; `resolves` says for each event whether its answer holds payloads."""
    refused = evaluation.refused
    items = [
        _encode_refused(ruling) if isinstance(ruling, Refused) else _encode_taken(ruling, resolve)
        for ruling, resolve in zip(evaluation.rulings, resolves, strict=refused is None)
    ]
    whole = encode_value(None) if refused is None else _encode_refused(refused)
    return encode_array([encode_number(evaluation.last_slot), whole, encode_array(items)])


def decode_answer(answer: bytes) -> Evaluation:
    """What `encode_answer` recorded, with slots in place of rows."""
    last_slot, refused, items = decode(answer)
    whole = None if refused is None else Refused(*refused)
    return Evaluation(tuple(_decode_ruling(item) for item in items), last_slot, whole)


def without_answer_payloads(answer: bytes) -> bytes:
    """A record that lost its payloads."""
    evaluation = decode_answer(answer)
    return encode_answer(evaluation, [False] * len(evaluation.rulings))


def _encode_refused(refused: Refused) -> bytes:
    return encode_value([refused.status, refused.code, refused.message, refused.retry_after_s])


def _encode_taken(ruling: Written | Repeated, resolve: bool) -> bytes:
    if isinstance(ruling, Written):
        slot, entities = ruling.row.slot, ruling.encode_entities(resolve=resolve)
    else:
        named = (ruling.run, ruling.step, ruling.hook, ruling.wait)
        slot, entities = ruling.slot, encode_entities(named, resolve=resolve)
    pairs = [("slot", encode_number(slot)), *entities]
    if ruling.step_created:
        pairs.append(("stepCreated", encode_value(True)))
    if ruling.max_events is not None:
        pairs.append(("maxEvents", encode_number(ruling.max_events)))
    return encode_pairs(pairs)


def _decode_ruling(item: list[Any] | Mapping[str, Any]) -> Ruling:
    if isinstance(item, list):
        return Refused(*item)
    return Repeated(
        item["slot"],
        run=_read(Run, item.get("run")),
        step=_read(Step, item.get("step")),
        hook=_read(Hook, item.get("hook")),
        wait=_read(Wait, item.get("wait")),
        step_created=item.get("stepCreated", False),
        max_events=item.get("maxEvents"),
    )


def _read(model: type[E], value: Mapping[str, Any] | None) -> E | None:
    return None if value is None else model.read(value)
