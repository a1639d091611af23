"""What the PostgreSQL store says to change a database: locks, loads, saves. Every session is a connection.

A transaction takes the advisory locks on the hook tokens it wants, then those on its run and on the runs
that hold these tokens, each kind in the order of the numbers, so that no two wait for each other. What it
loads afterwards is all that those before it committed: at READ COMMITTED a statement sees what was committed
when it began. Source: PostgreSQL 15 manual, sections 13.2.1 and 13.3.5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from eventclient.devserver.state import Changes, Claim, Holder, KeyChanges, State, Wanted
from eventclient.model.entities import Hook, Run, Step, Wait
from eventclient.wire.items import epoch_ms
from eventclient.wire.rows import NewRow

from .documents import E, encode_document, hook_row, read_document, without_payloads
from .postgres_connection import Connection, Row
from .postgres_keys import key_of, lock_of
from .postgres_records import load_records, save_records, strip_answers

_LOAD_RUN: Final = """SELECT 'run', run_id, doc, NULL::bytea, last_slot, NULL::bytea
    FROM runs WHERE run_id = $1"""
_LOAD_MORE: Final[Mapping[str, str]] = {
    "steps": "SELECT 'steps', id, doc, NULL, NULL, NULL FROM steps WHERE run_id = $1 AND id = ANY({})",
    "waits": "SELECT 'waits', id, doc, NULL, NULL, NULL FROM waits WHERE run_id = $1 AND id = ANY({})",
    "hooks": "SELECT 'hooks', id, doc, NULL, NULL, NULL FROM hooks WHERE run_id = $1 AND id = ANY({})",
    "tokens": """SELECT 'tokens', token, hooks.doc, runs.doc, NULL, NULL
        FROM hooks LEFT JOIN runs USING (run_id) WHERE token = ANY({})""",
    "claims": """SELECT 'claims', key, NULL, NULL, slot, detail
        FROM claims WHERE run_id = $1 AND key = ANY({})""",
}
"""What `Wanted` names -> how to load it: kind, key, two documents, slot, detail."""
_SAVE: Final = """WITH
saved_run AS (
    INSERT INTO runs (run_id, last_slot, workflow_name, status, doc) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (run_id) DO UPDATE SET
    last_slot = excluded.last_slot, status = excluded.status, doc = excluded.doc),
saved_steps AS (
    INSERT INTO steps (run_id, id, doc)
    SELECT $1, id, doc FROM unnest($6::text[], $7::bytea[]) WITH ORDINALITY AS new (id, doc, n) ORDER BY n
    ON CONFLICT (run_id, id) DO UPDATE SET doc = excluded.doc),
saved_waits AS (
    INSERT INTO waits (run_id, id, doc) SELECT $1, * FROM unnest($8::text[], $9::bytea[])
    ON CONFLICT (run_id, id) DO UPDATE SET doc = excluded.doc),
saved_claims AS (
    INSERT INTO claims SELECT $1, * FROM unnest($10::text[], $11::bigint[], $12::bytea[]))
INSERT INTO events SELECT $1, * FROM unnest($13::bigint[], $14::text[], $15::bytea[], $16::bytea[])
"""
_SAVE_HOOKS: Final = """INSERT INTO hooks (run_id, id, token, retained_until_ms, doc)
SELECT run_id, id, token, until_ms, doc
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
WITH ORDINALITY AS new (run_id, id, token, until_ms, doc, n) ORDER BY n"""


class Session:
    """One transaction on a run.

    Args:
        connection: in no transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._durable = True

    async def begin(self, wanted: Wanted, *, durable: bool = True) -> None:
        """Begin, and wait until nobody else changes anything that is `wanted`.

        A commit that is not `durable` does not wait for the disk, and is there once a later one is that did.
        """
        self._durable = durable
        runs = {lock_of("run", wanted.run_id)}
        if wanted.tokens:
            await self._begin_with_locks(lock_of("token", token) for token in wanted.tokens)
            tokens = [key_of(token) for token in wanted.tokens]
            # A token may still be let go, but nobody else can take it any more.
            held = await self._connection.fetch("SELECT doc FROM hooks WHERE token = ANY($1)", tokens)
            runs.update(lock_of("run", read_document(Hook, document).run_id) for (document,) in held)
            await self._connection.execute(_lock(runs))
        else:
            await self._begin_with_locks(runs)

    async def _begin_with_locks(self, locks: Iterable[int]) -> None:
        lazily = "" if self._durable else "SET LOCAL synchronous_commit = off; "
        await self._connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {lazily}{_lock(locks)}")

    async def commit(self) -> None:
        await self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        """Leave nothing behind; what a lost connection had begun is rolled back by the database."""
        if not self._connection.is_closed():
            await self._connection.execute("ROLLBACK")

    async def load(self, wanted: Wanted) -> State:
        """What is there of `wanted`: one round trip, and another one for the records of requests."""
        statement, arguments = [_LOAD_RUN] if wanted.run else [], [key_of(wanted.run_id)]
        names: dict[str, dict[str, str]] = {}
        lists: list[list[str]] = []
        for kind, select in _LOAD_MORE.items():
            named = getattr(wanted, kind)
            if named:
                names[kind] = {key_of(name): name for name in named}
                lists.append(list(names[kind]))
                statement.append(select.format(f"${len(lists) + 1}"))
        rows = []
        if statement:
            rows = await self._connection.fetch(" UNION ALL ".join(statement), *arguments, *lists)
        found: defaultdict[str, dict[str, Row]] = defaultdict(dict)
        for kind, key, *values in rows:
            found[kind][names[kind][key] if kind in names else key] = tuple(values)
        run = next(iter(found["run"].values()), None)
        records = {}
        if wanted.keys:
            records = await load_records(self._connection, key_of(wanted.run_id), wanted.keys)
        return State(
            run=read_document(Run, run[0]) if run is not None else None,
            last_slot=run[2] if run is not None else 0,
            steps=_documents(Step, found["steps"]),
            waits=_documents(Wait, found["waits"]),
            hooks=_documents(Hook, found["hooks"]),
            holders={token: _holder(*row) for token, row in found["tokens"].items()},
            claims={name: _claim(*row) for name, row in found["claims"].items()},
            records=records,
        )

    async def save(self, changes: Changes | KeyChanges) -> None:
        """Write `changes` into the transaction."""
        if isinstance(changes, KeyChanges):
            await save_records(self._connection, key_of(changes.run_id), changes.records)
            return
        run, run_id = changes.run, key_of(changes.run.run_id)
        if changes.records:
            await save_records(self._connection, run_id, changes.records)
        execute = self._connection.execute
        if changes.ended_at is not None:
            ended_at_ms = epoch_ms(changes.ended_at)
            await execute("DELETE FROM waits WHERE run_id = $1", run_id)
            await execute(
                "DELETE FROM hooks WHERE run_id = $1 AND coalesce(retained_until_ms, $2) <= $2",
                *(run_id, ended_at_ms),
            )
        for pair in changes.gone_hooks:
            await execute("DELETE FROM hooks WHERE run_id = $1 AND id = $2", *map(key_of, pair))
        if changes.hooks:
            hooks = [_hook_row(hook) for hook in changes.hooks.values()]
            await execute(_SAVE_HOOKS, *_columns(hooks, 5))
        await execute(
            _SAVE,
            *(run_id, changes.last_slot, key_of(run.workflow_name), key_of(run.status)),
            encode_document(run),
            *_columns(_entity_rows(changes.steps), 2),
            *_columns(_entity_rows(changes.waits), 2),
            *_columns([_claim_row(name, claim) for name, claim in changes.claims.items()], 3),
            *_columns([_event_row(row) for row in changes.events], 4),
        )
        if changes.purge:
            await self._purge(run_id)

    async def _purge(self, run_id: str) -> None:
        await self._connection.execute("UPDATE events SET payload = '' WHERE run_id = $1", run_id)
        await self._strip(Run, "runs", run_id)
        await self._strip(Step, "steps", run_id)
        await self._strip(Hook, "hooks", run_id)
        await strip_answers(self._connection, run_id)
        # In this order: who is writing to a stream is waited for, and who comes later finds it closed.
        await self._connection.execute(
            "UPDATE streams SET chunk_count = 0, closed = true WHERE run_id = $1", run_id
        )
        await self._connection.execute(
            "DELETE FROM chunks USING streams WHERE stream = position AND run_id = $1", run_id
        )

    async def _strip(self, model: type[E], table: str, run_id: str) -> None:
        rows = await self._connection.fetch(f"SELECT position, doc FROM {table} WHERE run_id = $1", run_id)  # noqa: S608 - our names
        bare: list[Row] = [(position, without_payloads(model, document)) for position, document in rows]
        await self._connection.execute(
            f"""UPDATE {table} SET doc = bare.doc
            FROM unnest($2::bigint[], $3::bytea[]) AS bare (position, doc)
            WHERE run_id = $1 AND {table}.position = bare.position""",  # noqa: S608 - our names
            *(run_id, *_columns(bare, 2)),
        )


def _lock(locks: Iterable[int]) -> str:
    """Takes `locks` one by one, in the order in which everybody does."""
    return "; ".join(f"SELECT pg_advisory_xact_lock({lock})" for lock in sorted(set(locks)))


def _documents(model: type[E], rows: Mapping[str, Row]) -> dict[str, E]:
    return {name: read_document(model, document) for name, (document, *_) in rows.items()}


def _holder(hook: bytes, run: bytes | None, *_: object) -> Holder:
    return Holder(read_document(Hook, hook), read_document(Run, run) if run is not None else None)


def _hook_row(hook: Hook) -> Row:
    run_id, hook_id, token, until_ms, document = hook_row(hook)
    return key_of(run_id), key_of(hook_id), key_of(token), until_ms, document


def _claim(_: object, __: object, slot: int, detail: bytes) -> Claim:
    return Claim(slot, detail.decode("utf-8", "surrogatepass"))


def _claim_row(name: str, claim: Claim) -> Row:
    return key_of(name), claim.slot, claim.detail.encode("utf-8", "surrogatepass")


def _event_row(row: NewRow) -> Row:
    name = row.correlation_id
    return row.slot, key_of(name) if name is not None else None, row.meta, row.payload


def _entity_rows(entities: Mapping[str, Step] | Mapping[str, Wait]) -> list[Row]:
    return [(key_of(name), encode_document(entity)) for name, entity in entities.items()]


def _columns(rows: Sequence[Row], count: int) -> list[list[Any]]:
    """Rows of `count` values as one list for each of them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
