"""The drill on a private PostgreSQL cluster: ``python -m tests.drill``, with the drill's own options."""

from __future__ import annotations

import sys

from eventclient.cli.main import cli
from tests.support.postgres_cluster import running_cluster

if __name__ == "__main__":
    with running_cluster(durable=True) as cluster:
        cli(["drill", "--dsn", cluster.fresh_database(), *sys.argv[1:]])
