"""What the SQLite store says to its database: reads and writes. Knows nothing of tasks or threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from eventclient.devserver.state import Changes, Claim, Holder, KeyChanges, LogQuery, LogRow, State, Wanted
from eventclient.devserver.store import (
    HookQuery,
    Listed,
    ListQuery,
    RunQuery,
    StepQuery,
    StreamPart,
    StreamQuery,
)
from eventclient.errors import ConfigurationError
from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.items import epoch_ms

from .documents import (
    E,
    encode_document,
    event_row,
    hook_row,
    read_document,
    without_payloads,
)
from .sqlite_records import SELECT_RECORDS, drop_records, read_record, save_records, strip_answers
from .sqlite_schema import SCHEMA, SCHEMA_VERSION, UPGRADES
from .sqlite_streams import list_streams, read_stream, write_stream

MEMORY: Final = ":memory:"
_LOG: Final = """SELECT slot, meta, {payload} FROM events
    WHERE run_id = ? AND slot > ? AND slot < ? AND (? IS NULL OR correlation_id = ?)
    ORDER BY slot {order} LIMIT ?"""
_CHECKPOINT_PAGES: Final = 1000
"""How long the write-ahead log grows before it is moved into the file: what SQLite takes by default."""
_MAX_POSITION: Final = 2**53
_MAX_NAMES: Final = 512
"""Names in one statement: older builds of SQLite take 999 parameters."""
PATIENCE_MS: Final = 10_000
"""How long another process may hold the write lock before a change gives up."""


class Database:
    """A connection.

    Args:
        path: a file, or `MEMORY`.
        create: make the tables when there are none; otherwise they must be there.
    """

    def __init__(self, path: str, *, create: bool = True) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, cached_statements=256, check_same_thread=False, timeout=0
        )
        try:
            self._prepare(durable=path != MEMORY, create=create)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, *, durable: bool, create: bool) -> None:
        self.wait_for_lock(PATIENCE_MS)
        self._is_on_disk, self._waits_for_disk = durable, durable
        if durable:
            mode = self.one("PRAGMA journal_mode = WAL")
            if mode != ("wal",):
                raise ConfigurationError("its place allows no write-ahead log, which this store needs")
            self._connection.execute("PRAGMA synchronous = FULL")
        if create:
            # Another process may be opening the same new file.
            self.begin()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version == 0 and self.one("SELECT 1 FROM sqlite_master") is None:
                version = self._make(SCHEMA)
            elif version in UPGRADES:
                version = self._make(UPGRADES[version])
            if version != SCHEMA_VERSION:
                raise ConfigurationError(
                    f"its schema has version {version}, not {SCHEMA_VERSION}: name a new file"
                )
            self.commit()
        self.wait_for_lock(0)

    def _make(self, statements: Sequence[str]) -> int:
        for statement in statements:
            self._connection.execute(statement)
        return SCHEMA_VERSION

    def close(self) -> None:
        self._connection.close()

    def wait_for_lock(self, patience_ms: int) -> None:
        """How long `begin` waits for another process."""
        self._connection.execute(f"PRAGMA busy_timeout = {patience_ms}")

    def wait_for_disk(self, waits: bool) -> None:
        """Whether the next commits wait until they are on disk. One that does takes along those before it.

        Source: SQLite documentation, "PRAGMA synchronous", FULL and NORMAL in WAL mode.
        """
        if self._is_on_disk and waits is not self._waits_for_disk:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if waits else 'NORMAL'}")
            # Nor is it to be the one that moves the log into the file, which waits for the disk in any mode.
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES if waits else 0}")
            self._waits_for_disk = waits

    def begin(self) -> None:
        """Take the write lock at once, so that what is loaded cannot change before it is saved."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def one(self, statement: str, *arguments: object) -> tuple[Any, ...] | None:
        """The first row."""
        row: tuple[Any, ...] | None = self._connection.execute(statement, arguments).fetchone()
        return row

    # -- read ----------------------------------------------------------------------------------

    def load(self, wanted: Wanted) -> State:
        """What is there of `wanted`."""
        run_id = wanted.run_id
        row = self.one("SELECT last_slot, doc FROM runs WHERE run_id = ?", run_id) if wanted.run else None
        claims = self._named("SELECT key, slot, detail FROM claims", "key", run_id, wanted.claims)
        records = self._named(SELECT_RECORDS, "key", run_id, wanted.keys)
        return State(
            run=read_document(Run, row[1]) if row is not None else None,
            last_slot=row[0] if row is not None else 0,
            steps=self._documents(Step, "steps", run_id, wanted.steps),
            waits=self._documents(Wait, "waits", run_id, wanted.waits),
            hooks=self._documents(Hook, "hooks", run_id, wanted.hooks),
            holders={token: holder for token in wanted.tokens if (holder := self._holder(token)) is not None},
            claims={key: Claim(slot, detail) for key, slot, detail in claims},
            records={key: read_record(tuple(values)) for key, *values in records},
        )

    def _named(
        self, select: str, column: str, run_id: str, names: frozenset[str]
    ) -> Iterator[tuple[Any, ...]]:
        some = list(names)
        for start in range(0, len(some), _MAX_NAMES):
            part = some[start : start + _MAX_NAMES]
            # Filled up to a power of two: few texts, which SQLite parses once.
            part += part[-1:] * ((1 << (len(part) - 1).bit_length()) - len(part))
            marks = ", ".join("?" * len(part))
            yield from self._connection.execute(
                f"{select} WHERE run_id = ? AND {column} IN ({marks})", (run_id, *part)
            )

    def _documents(self, model: type[E], table: str, run_id: str, names: frozenset[str]) -> dict[str, E]:
        rows = self._named(f"SELECT id, doc FROM {table}", "id", run_id, names)  # noqa: S608 - our names
        return {name: read_document(model, document) for name, document in rows}

    def _holder(self, token: str) -> Holder | None:
        row = self.one(
            "SELECT hooks.doc, runs.doc FROM hooks LEFT JOIN runs USING (run_id) WHERE token = ?", token
        )
        if row is None:
            return None
        run = read_document(Run, row[1]) if row[1] is not None else None
        return Holder(read_document(Hook, row[0]), run)

    def read_log(self, query: LogQuery) -> list[LogRow] | None:
        # A run stays, so nothing can come between this and the next statement that would not fit it.
        if self.one("SELECT 1 FROM runs WHERE run_id = ?", query.run_id) is None:
            return None
        after, before = query.after or 0, query.before or _MAX_POSITION
        if query.descending:
            after, before = 0, query.after or _MAX_POSITION
        correlation_id = query.correlation_id
        limit = -1 if query.limit is None else query.limit
        arguments = (query.run_id, after, before, correlation_id, correlation_id, limit)
        order, payload = "DESC" if query.descending else "ASC", "payload" if query.payloads else "x''"
        statement = _LOG.format(order=order, payload=payload)
        return [LogRow(*row) for row in self._connection.execute(statement, arguments)]

    def read_runs(self, query: RunQuery) -> list[Listed[Run]]:
        wanted = {
            "run_id": query.run_id,
            "workflow_name": query.workflow_name,
            "status": query.status,
        }
        return self._list(Run, "runs", query, wanted)

    def read_steps(self, query: StepQuery) -> list[Listed[Step]]:
        return self._list(Step, "steps", query, {"run_id": query.run_id, "id": query.step_id})

    def read_hooks(self, query: HookQuery) -> list[Listed[Hook]]:
        wanted = {"run_id": query.run_id, "id": query.hook_id, "token": query.token}
        return self._list(Hook, "hooks", query, wanted)

    def _list(
        self, model: type[E], table: str, query: ListQuery, wanted: dict[str, str | None]
    ) -> list[Listed[E]]:
        named = {column: value for column, value in wanted.items() if value is not None}
        conditions = [f"{column} = ?" for column in named]
        arguments: list[object] = list(named.values())
        if query.after is not None:
            conditions.append("position < ?" if query.descending else "position > ?")
            arguments.append(query.after)
        where = " AND ".join(conditions) or "TRUE"
        order = "DESC" if query.descending else "ASC"
        statement = f"SELECT position, doc FROM {table} WHERE {where} ORDER BY position {order} LIMIT ?"  # noqa: S608 - our names
        rows = self._connection.execute(statement, (*arguments, query.limit))
        return [Listed(position, read_document(model, document)) for position, document in rows]

    # -- write ---------------------------------------------------------------------------------

    def save(self, changes: Changes | KeyChanges) -> None:
        """Write `changes` into the transaction that has begun."""
        if isinstance(changes, KeyChanges):
            save_records(self._connection, changes.run_id, changes.records)
            return
        run, run_id = changes.run, changes.run.run_id
        if changes.records:
            save_records(self._connection, run_id, changes.records)
        write = self._connection.executemany
        self._connection.execute(
            """INSERT INTO runs (run_id, last_slot, workflow_name, status, doc) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (run_id) DO UPDATE SET
            last_slot = excluded.last_slot, status = excluded.status, doc = excluded.doc""",
            (run_id, changes.last_slot, run.workflow_name, run.status, encode_document(run)),
        )
        if changes.ended_at is not None:
            ended_at_ms = epoch_ms(changes.ended_at)
            write("DELETE FROM waits WHERE run_id = ?", [(run_id,)])
            write(
                "DELETE FROM hooks WHERE run_id = ?1 AND coalesce(retained_until_ms, ?2) <= ?2",
                [(run_id, ended_at_ms)],
            )
        write("DELETE FROM hooks WHERE run_id = ? AND id = ?", changes.gone_hooks)
        for table, entities in (("steps", changes.steps), ("waits", changes.waits)):
            write(
                f"""INSERT INTO {table} (run_id, id, doc) VALUES (?, ?, ?)
                ON CONFLICT (run_id, id) DO UPDATE SET doc = excluded.doc""",  # noqa: S608 - our names
                [(run_id, name, encode_document(entity)) for name, entity in entities.items()],
            )
        write(
            "INSERT INTO hooks (run_id, id, token, retained_until_ms, doc) VALUES (?, ?, ?, ?, ?)",
            [hook_row(hook) for hook in changes.hooks.values()],
        )
        claims = [(run_id, key, claim.slot, claim.detail) for key, claim in changes.claims.items()]
        write("INSERT INTO claims VALUES (?, ?, ?, ?)", claims)
        write("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [event_row(event) for event in changes.events])
        if changes.purge:
            self._purge(run_id)

    def _purge(self, run_id: str) -> None:
        self._connection.execute("UPDATE events SET payload = x'' WHERE run_id = ?", (run_id,))
        self._strip(Run, "runs", run_id)
        self._strip(Step, "steps", run_id)
        self._strip(Hook, "hooks", run_id)
        strip_answers(self._connection, run_id)
        self._connection.execute(
            "DELETE FROM chunks WHERE stream IN (SELECT position FROM streams WHERE run_id = ?)", (run_id,)
        )
        self._connection.execute("UPDATE streams SET chunk_count = 0, closed = 1 WHERE run_id = ?", (run_id,))

    def _strip(self, model: type[E], table: str, run_id: str) -> None:
        rows = self._connection.execute(f"SELECT doc, position FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608 - our names
        bare = [(without_payloads(model, document), position) for document, position in rows.fetchall()]
        self._connection.executemany(f"UPDATE {table} SET doc = ? WHERE position = ?", bare)  # noqa: S608 - our names

    def drop_records(self, now_ms: int, limit: int) -> int:
        """Forget records of requests in the transaction that has begun."""
        return drop_records(self._connection, now_ms, limit)

    # -- streams -------------------------------------------------------------------------------

    def write_stream(self, run_id: str, name: str, chunks: Sequence[bytes], *, close: bool) -> bool:
        """Append to a stream in the transaction that has begun."""
        return write_stream(self._connection, run_id, name, chunks, close=close)

    def read_stream(self, query: StreamQuery) -> StreamPart:
        return read_stream(self._connection, query)

    def list_streams(self, run_id: str) -> list[str]:
        return list_streams(self._connection, run_id)
