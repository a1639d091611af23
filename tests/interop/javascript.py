"""The published JavaScript client in a process of its own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.presence import missing

SOURCES: Final = Path(__file__).parent / "js"
LOCKED: Final = ("package.json", "package-lock.json")
TIMEOUT_S: Final = 120.0
"""A scenario that hangs is a failure; none takes nearly as long."""


@dataclass(frozen=True)
class JavaScriptClient:
    """Plays groups of scenarios.

    Attributes:
        node: the Node.js executable.
        folder: where the driver and its packages are.
    """

    node: str
    folder: Path

    async def play(self, group: str, server_url: str) -> dict[str, str | None]:
        """What each scenario of a group said against a server: why it failed, None when it did not."""
        process = await asyncio.create_subprocess_exec(
            self.node,
            "driver.mjs",
            group,
            cwd=self.folder,
            env=self._environment(server_url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                told, complaints = await process.communicate()
        except TimeoutError:
            process.kill()
            told, complaints = await process.communicate()
        report = {line["scenario"]: line["error"] for line in map(json.loads, told.splitlines())}
        if process.returncode != 0:
            report["the driver itself"] = f"ended with {process.returncode}: {complaints.decode()}"
        return report

    def _environment(self, server_url: str) -> dict[str, str]:
        """Nothing of the caller's that the client might read, so that it is always the same client."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "VERCEL_WORKFLOW_SERVER_URL": server_url,
            "WORKFLOW_EVENTS_TRANSPORT": "http",
        }


def install(packages: Path, folder: Path) -> JavaScriptClient:
    """The client, installed as the lock file says.

    Args:
        packages: where installed packages are kept from one session to the next.
        folder: an empty folder for the driver.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing("node", "Node.js is not installed")
    for source in SOURCES.iterdir():
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / source.name)
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in LOCKED)).hexdigest()
    installed = packages / digest[:16]
    if not installed.exists():
        _install(npm, installed)
    (folder / "node_modules").symlink_to(installed / "node_modules", target_is_directory=True)
    return JavaScriptClient(node, folder)


def _install(npm: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        place = Path(work) / "packages"
        place.mkdir()
        for name in LOCKED:
            shutil.copy(SOURCES / name, place)
        # The optional packages speed up one decoder, and are not there for every machine.
        command = [npm, "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        try:
            place.rename(target)
        except OSError:
            # Another session was quicker.
            assert target.exists()
