"""What the PostgreSQL store says to read, and to write to a stream. One statement sees or does the whole of
something: it has one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eventclient.devserver.state import LogQuery, LogRow
from eventclient.devserver.store import (
    HookQuery,
    Listed,
    ListQuery,
    RunQuery,
    StepQuery,
    StreamPart,
    StreamQuery,
)
from eventclient.model.entities import TERMINAL_RUN_STATUSES, Hook, Run, Step

from .documents import E, check_not_expired, read_document
from .postgres_connection import Connection
from .postgres_keys import key_of

_MAX_SLOT: Final = 2**53
_LOG: Final = """SELECT slot, meta, payload FROM runs LEFT JOIN LATERAL (
    SELECT slot, meta, {payload} AS payload FROM events
    WHERE run_id = $1 AND slot > $2 AND slot < $3{condition} ORDER BY slot {order} LIMIT $4
) AS rows ON TRUE WHERE run_id = $1 ORDER BY slot {order}"""
# The lock on the row of the run waits for who is ending it, and then sees what became of it. Until this is
# committed nobody purges the run.
_WRITE_STREAM: Final = """WITH run AS (SELECT status, doc FROM runs WHERE run_id = $1 FOR SHARE),
stream AS (
    INSERT INTO streams (run_id, id, name, chunk_count, closed)
    SELECT $1, $2, $3, cardinality($4::bytea[]), $5
    WHERE NOT EXISTS (SELECT FROM run WHERE status = ANY ($6::text[]))
    ON CONFLICT (run_id, id) DO UPDATE
    SET chunk_count = streams.chunk_count + excluded.chunk_count, closed = excluded.closed
    WHERE NOT streams.closed
    RETURNING position, chunk_count),
added AS (
    INSERT INTO chunks SELECT position, chunk_count - cardinality($4::bytea[]) + n - 1, data
    FROM stream, unnest($4::bytea[]) WITH ORDINALITY AS new (data, n))
SELECT (SELECT count(*) FROM stream), (SELECT doc FROM run WHERE status = ANY ($6::text[]))"""
_ENDED: Final = [key_of(status) for status in sorted(TERMINAL_RUN_STATUSES)]
_READ_STREAM: Final = """SELECT chunk_count, closed, first, data FROM (
    SELECT *, CASE WHEN $3 < 0 THEN greatest(0, chunk_count + $3) ELSE $3::bigint END AS first
    FROM streams WHERE run_id = $1 AND id = $2
) AS found LEFT JOIN LATERAL (
    SELECT number, data FROM chunks WHERE stream = position AND number >= first ORDER BY number LIMIT $4
) AS rows ON TRUE ORDER BY number"""


async def read_log(connection: Connection, query: LogQuery) -> list[LogRow] | None:
    """Rows of a run's log; None when there is no such run."""
    after, before = query.after or 0, query.before or _MAX_SLOT
    if query.descending:
        after, before = 0, query.after or _MAX_SLOT
    arguments: list[object] = [key_of(query.run_id), after, before, query.limit]
    condition = ""
    if query.correlation_id is not None:
        condition = " AND correlation_id = $5"
        arguments.append(key_of(query.correlation_id))
    order, payload = "DESC" if query.descending else "ASC", "payload" if query.payloads else "''::bytea"
    statement = _LOG.format(condition=condition, order=order, payload=payload)
    rows = await connection.fetch(statement, *arguments)
    if not rows:
        return None
    return [LogRow(slot, meta, payload) for slot, meta, payload in rows if slot is not None]


async def read_runs(connection: Connection, query: RunQuery) -> list[Listed[Run]]:
    """Runs in the order asked for."""
    wanted = {"run_id": query.run_id, "workflow_name": query.workflow_name, "status": query.status}
    return await _list(connection, Run, "runs", query, wanted)


async def read_steps(connection: Connection, query: StepQuery) -> list[Listed[Step]]:
    """Steps of a run in the order asked for."""
    return await _list(connection, Step, "steps", query, {"run_id": query.run_id, "id": query.step_id})


async def read_hooks(connection: Connection, query: HookQuery) -> list[Listed[Hook]]:
    """Hooks that are there, in the order asked for."""
    wanted = {"run_id": query.run_id, "id": query.hook_id, "token": query.token}
    return await _list(connection, Hook, "hooks", query, wanted)


async def _list(
    connection: Connection, model: type[E], table: str, query: ListQuery, wanted: dict[str, str | None]
) -> list[Listed[E]]:
    arguments: list[object] = [query.limit]
    conditions = ["TRUE"]
    for column, name in wanted.items():
        if name is not None:
            arguments.append(key_of(name))
            conditions.append(f"{column} = ${len(arguments)}")
    if query.after is not None:
        arguments.append(query.after)
        conditions.append(f"position {'<' if query.descending else '>'} ${len(arguments)}")
    where, order = " AND ".join(conditions), "DESC" if query.descending else "ASC"
    statement = f"SELECT position, doc FROM {table} WHERE {where} ORDER BY position {order} LIMIT $1"  # noqa: S608 - our names
    rows = await connection.fetch(statement, *arguments)
    return [Listed(position, read_document(model, document)) for position, document in rows]


async def write_stream(
    connection: Connection, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool
) -> bool:
    """Append to a stream and close it if asked to; False when it is closed already.

    Raises:
        StreamExpiredError: the payloads of the run are gone.
    """
    encoded = name.encode("utf-8", "surrogatepass")
    arguments = (key_of(run_id), key_of(name), encoded, list(chunks), close)
    ((written, ended),) = await connection.fetch(_WRITE_STREAM, *arguments, _ENDED)
    if ended is None:
        return bool(written)
    check_not_expired(ended)
    # A run that has kept its payloads when it ended keeps them.
    ((written, _),) = await connection.fetch(_WRITE_STREAM, *arguments, [])
    return bool(written)


async def read_stream(connection: Connection, query: StreamQuery) -> StreamPart:
    """Chunks of a stream; one nobody wrote to is open and has none."""
    arguments = (key_of(query.run_id), key_of(query.name), query.start, query.limit)
    rows = await connection.fetch(_READ_STREAM, *arguments)
    if not rows:
        return StreamPart(max(0, query.start), (), 0, closed=False)
    chunk_count, closed, start, _ = rows[0]
    chunks = tuple(data for _, _, _, data in rows if data is not None)
    return StreamPart(start, chunks, chunk_count, closed)


async def list_streams(connection: Connection, run_id: str) -> list[str]:
    """Names of the run's streams, in the order in which they came to be."""
    rows = await connection.fetch(
        "SELECT name FROM streams WHERE run_id = $1 ORDER BY position", key_of(run_id)
    )
    return [name.decode("utf-8", "surrogatepass") for (name,) in rows]
