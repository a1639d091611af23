"""What the SQLite store says to its database about requests that carried an idempotency key."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from eventclient.devserver.recorded import without_answer_payloads
from eventclient.devserver.state import KeyRecord

SELECT_RECORDS: Final = (
    "SELECT key, fingerprint, token, lease_until_ms, answer, has_payloads, expires_ms FROM requests"
)
_SAVE: Final = """INSERT INTO requests
    (run_id, key, fingerprint, token, lease_until_ms, answer, has_payloads, expires_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, token = excluded.token, lease_until_ms = excluded.lease_until_ms,
    answer = excluded.answer, has_payloads = excluded.has_payloads, expires_ms = excluded.expires_ms"""
_DROP: Final = """DELETE FROM requests WHERE position IN
    (SELECT position FROM requests WHERE expires_ms <= ? LIMIT ?)"""


def read_record(row: tuple[Any, ...]) -> KeyRecord:
    """The record in a row of `SELECT_RECORDS`, behind its key."""
    fingerprint, token, lease_until_ms, answer, has_payloads, expires_ms = row
    return KeyRecord(
        fingerprint=fingerprint,
        token=token,
        lease_until_ms=lease_until_ms,
        answer=answer,
        has_payloads=bool(has_payloads),
        expires_ms=expires_ms,
    )


def save_records(connection: sqlite3.Connection, run_id: str, records: Mapping[str, KeyRecord]) -> None:
    """Write records into the transaction that has begun."""
    connection.executemany(
        _SAVE,
        [
            (
                *(run_id, key, record.fingerprint, record.token, record.lease_until_ms),
                *(record.answer, record.has_payloads, record.expires_ms),
            )
            for key, record in records.items()
        ],
    )


def strip_answers(connection: sqlite3.Connection, run_id: str) -> None:
    """Take the payloads out of the recorded answers of a run."""
    rows = connection.execute(
        "SELECT answer, position FROM requests WHERE run_id = ? AND has_payloads AND answer IS NOT NULL",
        (run_id,),
    )
    bare = [(without_answer_payloads(answer), position) for answer, position in rows.fetchall()]
    connection.executemany("UPDATE requests SET answer = ?, has_payloads = 0 WHERE position = ?", bare)


def drop_records(connection: sqlite3.Connection, now_ms: int, limit: int) -> int:
    """Delete records that have expired; how many."""
    return connection.execute(_DROP, (now_ms, limit)).rowcount
