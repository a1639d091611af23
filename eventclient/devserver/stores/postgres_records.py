"""What the PostgreSQL store says to its database about requests that carried an idempotency key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from eventclient.devserver.recorded import without_answer_payloads
from eventclient.devserver.state import KeyRecord

from .postgres_connection import Connection

_LOAD: Final = """SELECT key, fingerprint, token, lease_until_ms, answer, has_payloads, expires_ms
    FROM requests WHERE run_id = $1 AND key = ANY($2)"""
_SAVE: Final = """INSERT INTO requests
    (run_id, key, fingerprint, token, lease_until_ms, answer, has_payloads, expires_ms)
    SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bool[],
    $8::bigint[])
    ON CONFLICT (run_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, token = excluded.token, lease_until_ms = excluded.lease_until_ms,
    answer = excluded.answer, has_payloads = excluded.has_payloads, expires_ms = excluded.expires_ms"""
_STRIP: Final = """UPDATE requests SET answer = bare.answer, has_payloads = false
    FROM unnest($2::text[], $3::bytea[]) AS bare (key, answer)
    WHERE requests.run_id = $1 AND requests.key = bare.key"""
# Materialized, or the limit would count for each row that is looked at.
_DROP: Final = """WITH old AS MATERIALIZED (
    SELECT run_id, key FROM requests WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2
    FOR UPDATE SKIP LOCKED)
    DELETE FROM requests USING old WHERE requests.run_id = old.run_id AND requests.key = old.key"""


async def load_records(connection: Connection, run_id: str, keys: Iterable[str]) -> dict[str, KeyRecord]:
    """The records of a run that there are, by key; `run_id` as the tables hold it."""
    rows = await connection.fetch(_LOAD, run_id, list(keys))
    return {key: _read(*values) for key, *values in rows}


def _read(
    fingerprint: bytes,
    token: int,
    lease_until_ms: int | None,
    answer: bytes | None,
    has_payloads: bool,
    expires_ms: int,
) -> KeyRecord:
    return KeyRecord(
        fingerprint=fingerprint,
        token=token,
        lease_until_ms=lease_until_ms,
        answer=answer,
        has_payloads=has_payloads,
        expires_ms=expires_ms,
    )


async def save_records(connection: Connection, run_id: str, records: Mapping[str, KeyRecord]) -> None:
    """Write records into the transaction."""
    each = list(records.values())
    columns: list[list[Any]] = [
        list(records),
        [record.fingerprint for record in each],
        [record.token for record in each],
        [record.lease_until_ms for record in each],
        [record.answer for record in each],
        [record.has_payloads for record in each],
        [record.expires_ms for record in each],
    ]
    await connection.execute(_SAVE, run_id, *columns)


async def strip_answers(connection: Connection, run_id: str) -> None:
    """Take the payloads out of the recorded answers of a run."""
    rows = await connection.fetch(
        "SELECT key, answer FROM requests WHERE run_id = $1 AND has_payloads AND answer IS NOT NULL", run_id
    )
    if rows:
        keys, answers = zip(*rows, strict=True)
        await connection.execute(_STRIP, run_id, keys, [without_answer_payloads(each) for each in answers])


async def drop_records(connection: Connection, now_ms: int, limit: int) -> int:
    """Delete records that have expired; how many."""
    tag = await connection.execute(_DROP, now_ms, limit)
    return int(tag.rpartition(" ")[2])
