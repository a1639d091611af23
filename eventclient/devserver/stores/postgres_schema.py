"""The tables of the PostgreSQL store, in a schema of their own."""

from __future__ import annotations

from typing import Final

from eventclient.errors import ConfigurationError

from .postgres_connection import Connection

SCHEMA: Final = "eventclient"
SCHEMA_VERSION: Final = 2
_OPENING: Final = 0x6576_6E74
"""Number of the advisory lock under which the tables are made; the locks on runs are digests."""
_REQUESTS: Final = """
CREATE TABLE requests (
    run_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, fingerprint bytea NOT NULL,
    token bigint NOT NULL, lease_until_ms bigint, answer bytea, has_payloads boolean NOT NULL,
    expires_ms bigint NOT NULL, PRIMARY KEY (run_id, key));
CREATE INDEX requests_by_expiry ON requests (expires_ms);
"""
# Rows that every change replaces keep room on their page: then no index has to be written.
_TABLES: Final = f"""
CREATE SCHEMA {SCHEMA};
CREATE TABLE schema_version (version integer NOT NULL);
CREATE TABLE runs (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id text COLLATE "C" NOT NULL UNIQUE,
    last_slot bigint NOT NULL, workflow_name text COLLATE "C" NOT NULL, status text COLLATE "C" NOT NULL,
    doc bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE events (
    run_id text COLLATE "C" NOT NULL, slot bigint NOT NULL, correlation_id text COLLATE "C",
    meta bytea NOT NULL, payload bytea NOT NULL, PRIMARY KEY (run_id, slot));
CREATE TABLE steps (
    position bigint GENERATED ALWAYS AS IDENTITY, run_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, doc bytea NOT NULL,
    PRIMARY KEY (run_id, position), UNIQUE (run_id, id)) WITH (fillfactor = 70);
CREATE TABLE waits (
    run_id text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, doc bytea NOT NULL,
    PRIMARY KEY (run_id, id)) WITH (fillfactor = 70);
CREATE TABLE hooks (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, token text COLLATE "C" NOT NULL UNIQUE, retained_until_ms bigint,
    doc bytea NOT NULL, UNIQUE (run_id, id));
CREATE INDEX hooks_by_id ON hooks (id);
CREATE TABLE claims (
    run_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, slot bigint NOT NULL,
    detail bytea NOT NULL, PRIMARY KEY (run_id, key));
CREATE TABLE streams (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, name bytea NOT NULL, chunk_count bigint NOT NULL, closed boolean NOT NULL,
    UNIQUE (run_id, id));
CREATE TABLE chunks (
    stream bigint NOT NULL, number bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (stream, number));
{_REQUESTS}"""
_UPGRADES: Final = {1: _REQUESTS}
"""Version -> what makes it the present one."""


async def make_tables(connection: Connection) -> None:
    """Make the tables where they are missing; any number of processes may do so at once.

    Raises:
        ConfigurationError: there is a schema of that name which this version did not make.
    """
    await connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_OPENING})")
    try:
        if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", SCHEMA):
            await connection.execute(_TABLES)
            await connection.execute("INSERT INTO schema_version VALUES ($1)", SCHEMA_VERSION)
        else:
            await _bring_up(connection)
        await connection.execute("COMMIT")
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


async def _bring_up(connection: Connection) -> None:
    version = None
    if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{SCHEMA}.schema_version"):
        version = await connection.fetchval(f"SELECT version FROM {SCHEMA}.schema_version")  # noqa: S608 - our name
    if version in _UPGRADES:
        await connection.execute(_UPGRADES[version])
        await connection.execute("UPDATE schema_version SET version = $1", SCHEMA_VERSION)
    elif version != SCHEMA_VERSION:
        raise ConfigurationError(
            f"its schema {SCHEMA} has version {version}, not {SCHEMA_VERSION}: name a new database"
        )
