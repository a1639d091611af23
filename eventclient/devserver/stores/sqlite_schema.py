"""The tables of the SQLite store."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 3
_REQUESTS: Final = (
    """CREATE TABLE requests (
        position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, key TEXT NOT NULL, fingerprint BLOB NOT NULL,
        token INTEGER NOT NULL, lease_until_ms INTEGER, answer BLOB, has_payloads INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL, UNIQUE (run_id, key))""",
    "CREATE INDEX requests_by_expiry ON requests (expires_ms)",
)
_VERSION: Final = f"PRAGMA user_version = {SCHEMA_VERSION}"
SCHEMA: Final = (
    """CREATE TABLE runs (
        position INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, last_slot INTEGER NOT NULL,
        workflow_name TEXT NOT NULL, status TEXT NOT NULL, doc BLOB NOT NULL)""",
    """CREATE TABLE events (
        run_id TEXT NOT NULL, slot INTEGER NOT NULL, correlation_id TEXT, meta BLOB NOT NULL,
        payload BLOB NOT NULL, PRIMARY KEY (run_id, slot)) WITHOUT ROWID""",
    """CREATE TABLE steps (
        position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL,
        UNIQUE (run_id, id))""",
    """CREATE TABLE waits (
        run_id TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (run_id, id)) WITHOUT ROWID""",
    """CREATE TABLE hooks (
        position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, id TEXT NOT NULL, token TEXT NOT NULL UNIQUE,
        retained_until_ms INTEGER, doc BLOB NOT NULL, UNIQUE (run_id, id))""",
    "CREATE INDEX hooks_by_id ON hooks (id)",
    """CREATE TABLE claims (
        run_id TEXT NOT NULL, key TEXT NOT NULL, slot INTEGER NOT NULL, detail TEXT NOT NULL,
        PRIMARY KEY (run_id, key)) WITHOUT ROWID""",
    """CREATE TABLE streams (
        position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, name TEXT NOT NULL, chunk_count INTEGER NOT NULL,
        closed INTEGER NOT NULL, UNIQUE (run_id, name))""",
    """CREATE TABLE chunks (
        stream INTEGER NOT NULL REFERENCES streams, number INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (stream, number)) WITHOUT ROWID""",
    *_REQUESTS,
    _VERSION,
)
UPGRADES: Final = {2: (*_REQUESTS, _VERSION)}
"""Version -> what makes it the present one."""
