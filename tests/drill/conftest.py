from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres_cluster import Cluster, ClusterUnavailableError, running_cluster
from tests.support.presence import missing


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL cluster of our own."""
    try:
        with running_cluster() as cluster:
            yield cluster
    except ClusterUnavailableError as error:
        missing("postgres", str(error))
