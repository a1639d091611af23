"""Answers to event posts and reads: encode (the server).

Absent members are left out, never null: the reference client reads a null instant as 1970 and refuses
most other nulls. The one null is the cursor of a log part that has no position.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (what its decoders take), `@workflow/world` 5.0.0-beta.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eventclient.model.entities import Hook, Run, Step, StoredEvent, Wait

from . import spec
from .codec import encode_number, encode_value
from .frames import encode_frame
from .items import encode_map_header
from .rows import LogRow
from .stored import encode_entity, encode_event, encode_name


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a run's log that travels inside an answer.

    Attributes:
        cursor: where to read on from; None when the part is a report and has no position.
        has_more: whether events of the range asked for are missing from `rows`.
    """

    rows: tuple[LogRow, ...]
    cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What a server answers to one event it took.

    Attributes:
        row: the event as stored; for a repeat, the one stored before.
        run, step, hook, wait: the entity it changed.
        step_created: this ``step_started`` created its step.
        max_events: the most events the server allows on the run.
        log: a part of the log the caller asked for.
    """

    row: LogRow
    run: Run | None = None
    step: Step | None = None
    hook: Hook | None = None
    wait: Wait | None = None
    step_created: bool = False
    max_events: int | None = None
    log: LogPart | None = field(default=None, repr=False)
    _encoded: dict[bool, list[tuple[str, bytes]]] = field(default_factory=dict, repr=False, compare=False)

    def encode_entities(self, *, resolve: bool) -> list[tuple[str, bytes]]:
        """What it changed, as it travels: name and bytes; payloads only when `resolve`.

        Encoded once: an answer is recorded in the same bytes that it is given in.
        """
        pairs = self._encoded.get(resolve)
        if pairs is None:
            entities = (self.run, self.step, self.hook, self.wait)
            pairs = self._encoded[resolve] = encode_entities(entities, resolve=resolve)
        return pairs

    @property
    def event(self) -> StoredEvent:
        """The event in `row`, its payload included."""
        return self.row.event()


@dataclass(frozen=True, slots=True)
class Refused:
    """What a server answers to one event, or one request, it did not take.

    Attributes:
        status: HTTP status.
        code: for programs, kebab-case.
        message: for people; holds no payload and no token.
        retry_after_s: whole seconds after which it may be taken.
    """

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


def encode_entities(
    entities: tuple[Run | None, Step | None, Hook | None, Wait | None], *, resolve: bool
) -> list[tuple[str, bytes]]:
    """The entities that there are, as they travel: name and bytes; payloads only when `resolve`."""
    return [
        (name, encode_entity(entity, resolve=resolve))
        for name, entity in zip(("run", "step", "hook", "wait"), entities, strict=True)
        if entity is not None
    ]


def encode_row(row: LogRow, *, resolve: bool = True) -> bytes:
    """The event of a row as it travels inside an answer; its payload only when `resolve`."""
    return encode_event(row.event()) if resolve and row.payload else row.meta


def encode_event_frame(meta: bytes, payload: bytes, *, resolve: bool = True) -> bytes:
    """The frame of an event from its encoded meta and its payload, which only `resolve` lets in."""
    return encode_frame(meta, payload if resolve else b"")


def encode_end_frame(cursor: str | None, *, has_more: bool) -> bytes:
    """The frame that ends a stream; `cursor` is where to read on from, if there is any position."""
    meta: dict[str, Any] = {spec.KEY_END: 1}
    if cursor is not None:
        meta["next"] = cursor
    meta["hasMore"] = has_more
    return encode_frame(encode_value(meta), b"")


_TAKEN: Final = ("status", encode_number(200))


def encode_written(written: Written, *, resolve: bool) -> bytes:
    """The answer to a single post."""
    return encode_pairs(_written_pairs(written, resolve))


def encode_results(results: Sequence[Written | Refused], resolves: Iterable[bool]) -> bytes:
    """The answer to a batch: one result per frame, in order; `resolves` says for each whether it asked
    for payloads."""
    items = []
    for result, resolve in zip(results, resolves, strict=True):
        if isinstance(result, Written):
            items.append(encode_pairs([_TAKEN, *_written_pairs(result, resolve)]))
        else:
            refused = {"status": result.status, "error": result.code, "message": result.message}
            items.append(encode_value(refused))
    return encode_pairs([("results", encode_array(items))])


def _written_pairs(written: Written, resolve: bool) -> list[tuple[str, bytes]]:
    pairs = [("event", encode_row(written.row, resolve=resolve)), *written.encode_entities(resolve=resolve)]
    if written.step_created:
        pairs.append(("stepCreated", encode_value(True)))
    if written.max_events is not None:
        pairs.append(("maxEvents", encode_number(written.max_events)))
    if written.log is not None:
        # The part feeds a replay, which needs the payloads whatever the post itself asked for.
        events = [encode_row(row) for row in written.log.rows]
        pairs.append(("events", encode_array(events)))
        pairs.append(("cursor", encode_value(written.log.cursor)))
        pairs.append(("hasMore", encode_value(written.log.has_more)))
    return pairs


def encode_pairs(pairs: Sequence[tuple[str, bytes]]) -> bytes:
    """A map of encoded values."""
    parts = [encode_map_header(len(pairs))]
    for key, value in pairs:
        parts += (encode_name(key), value)
    return b"".join(parts)


def encode_array(items: Sequence[bytes]) -> bytes:
    """An array of encoded items."""
    count = len(items)
    if count < 24:
        header = bytes((0x80 | count,))
    else:
        header = bytes((0x98, count)) if count < 0x100 else b"\x99" + count.to_bytes(2, "big")
    return b"".join((header, *items))
