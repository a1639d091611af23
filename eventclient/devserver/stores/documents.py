"""Entities and events as the rows of a database hold them, whatever the database."""

from __future__ import annotations

from typing import TypeVar

from eventclient.devserver.store import StreamExpiredError
from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.codec import decode
from eventclient.wire.items import epoch_ms
from eventclient.wire.rows import NewRow
from eventclient.wire.stored import encode_entity

E = TypeVar("E", Run, Step, Hook, Wait)


def encode_document(entity: Run | Step | Hook | Wait) -> bytes:
    """An entity, its payloads included."""
    return encode_entity(entity)


def read_document(model: type[E], document: bytes) -> E:
    """What `encode_document` made."""
    return model.read(decode(document))


def without_payloads(model: type[E], document: bytes) -> bytes:
    """A document whose entity lost its payloads."""
    return encode_entity(read_document(model, document), resolve=False)


def check_not_expired(document: bytes) -> None:
    """Look at a run that has ended.

    Raises:
        StreamExpiredError: its payloads are gone.
    """
    expired_at = read_document(Run, document).expired_at
    if expired_at is not None:
        raise StreamExpiredError(expired_at)


def event_row(row: NewRow) -> tuple[str, int, str | None, bytes, bytes]:
    """Run id, slot, correlation id, meta and payload."""
    return row.run_id, row.slot, row.correlation_id, row.meta, row.payload


def hook_row(hook: Hook) -> tuple[str, str, str, int | None, bytes]:
    """Run id, hook id, token, until when the token is retained in milliseconds since 1970, document."""
    until = hook.token_retention_until
    until_ms = epoch_ms(until) if until is not None else None
    return hook.run_id, hook.hook_id, hook.token, until_ms, encode_document(hook)
