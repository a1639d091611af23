"""A private PostgreSQL cluster, made from the installed binaries and gone at the end.

It listens on a socket in its own folder and on no port, so it disturbs nobody and nobody finds it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

NEEDED: Final = ("initdb", "pg_ctl", "postgres", "psql")
USER: Final = "owner"
GUARDED: Final = "guarded"
"""A user who has to give a password, `PASSWORD`; everybody else is believed."""
PASSWORD: Final = "p#ss/word?"
_WAIT_AND_REMOVE: Final = 'read -r _; "$1" -D "$2" -w -m immediate stop; rm -rf "$3"'
"""A shell script: with the path of pg_ctl, the cluster's data and its folder."""


class ClusterUnavailableError(Exception):
    """The binaries of PostgreSQL are not installed."""


def find_binaries() -> Path:
    """The folder of the newest PostgreSQL there is.

    Raises:
        ClusterUnavailableError: there is none.
    """
    folders = list(Path("/usr/lib/postgresql").glob("*/bin"))
    folders.sort(key=lambda folder: _number(folder.parent.name), reverse=True)
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(told.stdout.strip()))
    postgres = shutil.which("postgres")
    if postgres is not None:
        folders.append(Path(postgres).resolve().parent)
    for folder in folders:
        if all((folder / name).exists() for name in NEEDED):
            return folder
    raise ClusterUnavailableError(f"no PostgreSQL here: {', '.join(NEEDED)} are not installed")


def _number(version: str) -> float:
    try:
        return float(version)
    except ValueError:
        return 0.0


def _account() -> dict[str, Any]:
    """Who runs the cluster: it refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise ClusterUnavailableError("PostgreSQL refuses to be run by root, and there is nobody else")


class Cluster:
    """A cluster whose user `USER` may do everything.

    Args:
        folder: an empty one with a short path: a socket in it must have a name of at most 107 bytes.
        durable: wait for the disk as a real one does; otherwise what is committed survives the crash of
            the cluster, but not of the machine.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder = folder
        self._durable = durable
        self._binaries = find_binaries()
        self._account = _account()
        self._database_count = 0

    def create(self) -> None:
        """Make its files and start it."""
        if self._account:
            os.chown(self._folder, self._account["user"], self._account["group"])
        sync = [] if self._durable else ["--no-sync"]
        options = [f"--username={USER}", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "-D", str(self._data), *options, *sync)
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        self.start()
        self.psql(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._folder / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [
            *("listen_addresses=", f"unix_socket_directories={self._folder}", "max_connections=200"),
            *([] if self._durable else ["fsync=off", "full_page_writes=off"]),
        ]
        flags = " ".join(f"-c {setting}" for setting in settings)
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", flags, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; ``immediate`` leaves the rest to the recovery at the next start, as a crash does."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    @contextmanager
    def ending_with_this_process(self) -> Iterator[None]:
        """Stop it and remove its folder at the end of the block, whatever ends the block.

        A shell waits until nobody holds the other end of a pipe any more, which is so when this process
        is gone, too: nothing else runs in a process that is killed.
        """
        program, data = str(self._binaries / "pg_ctl"), str(self._data)
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_AND_REMOVE, "sh", program, data, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            **self._account,
        )
        try:
            yield
        finally:
            shell.communicate()

    def psql(self, statement: str, database: str = "postgres") -> str:
        """What a statement answers, unadorned."""
        options = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self._folder), "-U", USER]
        return self._run("psql", *options, "-d", database, "-c", statement)

    def fresh_database(self) -> str:
        """The DSN of a new and empty database."""
        self._database_count += 1
        name = f"fresh_{self._database_count}"
        self.psql(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def dsn(self, database: str, *, user: str = USER, password: str = "") -> str:
        """How to reach a database through the socket."""
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={quote(str(self._folder), safe='')}"

    def _run(self, program: str, *arguments: str) -> str:
        # Not a pipe: the server would inherit it and keep it open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [str(self._binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C"},
                check=False,
                **self._account,
            )
            output.seek(0)
            told = output.read()
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}: {told}")
        return told.strip()


@contextmanager
def running_cluster(*, durable: bool = False) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts, or this process, if it is killed.

    Raises:
        ClusterUnavailableError: PostgreSQL is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="ecpg-") as folder:
        cluster = Cluster(Path(folder), durable=durable)
        with cluster.ending_with_this_process():
            cluster.create()
            yield cluster
