from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventclient.devserver.store import Store
from eventclient.devserver.stores import STORES
from tests.support.postgres_cluster import Cluster, ClusterUnavailableError, running_cluster
from tests.support.presence import missing

from .javascript import JavaScriptClient, install


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL cluster of our own."""
    try:
        with running_cluster() as cluster:
            yield cluster
    except ClusterUnavailableError as error:
        missing("postgres", str(error))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    return _make_store(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def durable_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind that keeps what it has."""
    return _make_store(request, tmp_path)


def _make_store(request: pytest.FixtureRequest, folder: Path) -> Store:
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("cluster")
        return STORES["postgresql"](cluster.fresh_database())
    return STORES["sqlite"](":memory:" if request.param == "memory" else str(folder / "runs.db"))


@pytest.fixture(scope="session")
def javascript(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> JavaScriptClient:
    return install(pytestconfig.cache.mkdir("interop"), tmp_path_factory.mktemp("javascript"))
