"""What the SQLite store says to its database about streams."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from eventclient.devserver.store import StreamPart, StreamQuery
from eventclient.model.entities import TERMINAL_RUN_STATUSES

from .documents import check_not_expired

# One statement, which sees the stream and its chunks at one moment. Its row stays when there are no chunks,
# so what is asked for bounds their numbers, which have no gaps, and not the rows.
_READ_STREAM: Final = """SELECT chunk_count, closed, first, data FROM (
    SELECT *, CASE WHEN ?3 < 0 THEN max(0, chunk_count + ?3) ELSE ?3 END AS first
    FROM streams WHERE run_id = ?1 AND name = ?2
) LEFT JOIN chunks ON stream = position AND number >= first AND number < first + coalesce(?4, chunk_count)
ORDER BY number"""
_ENDED_RUN: Final = f"""SELECT doc FROM runs
    WHERE run_id = ? AND status IN ({", ".join("?" * len(TERMINAL_RUN_STATUSES))})"""  # noqa: S608 - marks


def write_stream(
    connection: sqlite3.Connection, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool
) -> bool:
    """Append to a stream in the transaction that has begun; see `Store.write_stream`."""
    for (document,) in connection.execute(_ENDED_RUN, (run_id, *TERMINAL_RUN_STATUSES)):
        check_not_expired(document)
    position, count, closed = _stream(connection, run_id, name) or (None, 0, False)
    if closed:
        return False
    if position is None:
        cursor = connection.execute(
            "INSERT INTO streams (run_id, name, chunk_count, closed) VALUES (?, ?, 0, 0)", (run_id, name)
        )
        position = cursor.lastrowid
    rows = [(position, count + number, chunk) for number, chunk in enumerate(chunks)]
    connection.executemany("INSERT INTO chunks VALUES (?, ?, ?)", rows)
    connection.execute(
        "UPDATE streams SET chunk_count = ?, closed = ? WHERE position = ?",
        (count + len(rows), close, position),
    )
    return True


def read_stream(connection: sqlite3.Connection, query: StreamQuery) -> StreamPart:
    """See `Store.read_stream`."""
    arguments = (query.run_id, query.name, query.start, query.limit)
    rows = connection.execute(_READ_STREAM, arguments).fetchall()
    if not rows:
        return StreamPart(max(0, query.start), (), 0, closed=False)
    count, closed, start, _ = rows[0]
    chunks = tuple(data for _, _, _, data in rows if data is not None)
    return StreamPart(start, chunks, count, bool(closed))


def list_streams(connection: sqlite3.Connection, run_id: str) -> list[str]:
    """See `Store.list_streams`."""
    rows = connection.execute("SELECT name FROM streams WHERE run_id = ? ORDER BY position", (run_id,))
    return [name for (name,) in rows]


def _stream(connection: sqlite3.Connection, run_id: str, name: str) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = connection.execute(
        "SELECT position, chunk_count, closed FROM streams WHERE run_id = ? AND name = ?", (run_id, name)
    ).fetchone()
    return row
