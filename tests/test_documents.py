"""Every Python example of the documents runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = ("README.md", "changelog/batched-event-writes.md")
TIMEOUT_S: Final = 60.0
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?:python|py)\s*\n(?P<code>.*?)^(?P=indent)```\s*$", re.M | re.S
)

RUNNER: Final = """
import ast, asyncio, inspect, sys
name = sys.argv[1]
code = compile(open(name, encoding="utf-8").read(), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
space = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, space))
else:
    exec(code, space)
"""
"""Runs an example as a script; one that awaits at its top is run in an event loop."""


@dataclass(frozen=True, slots=True)
class Example:
    """One Python block of a document."""

    document: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def examples_in(document: str, text: str) -> list[Example]:
    """The Python blocks of `text`."""
    found = []
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["code"].splitlines()]
        found.append(Example(document, text[: match.start("code")].count("\n") + 1, "\n".join(lines) + "\n"))
    return found


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


EXAMPLES: Final = [example for document in DOCUMENTS for example in examples_in(document, _text(document))]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_runs_as_written(example: Example, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", RUNNER, str(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_closes_its_fences(document: str) -> None:
    assert len(re.findall(r"^ *```", _text(document), re.M)) % 2 == 0


def test_a_written_readme_shows_python() -> None:
    assert not _text("README.md") or examples_in("README.md", _text("README.md"))


def test_blocks_are_found_by_their_label() -> None:
    text = "a\n```python\nx = 1\n```\n```sh\nls\n```\n  ```py\n  y = 2\n\n  z = 3\n  ```\n```\nplain\n```\n"
    assert examples_in("d", text) == [Example("d", 3, "x = 1\n"), Example("d", 9, "y = 2\n\nz = 3\n")]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_python(document: str) -> None:
    assert examples_in(document, _text(document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_into_the_project_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", _text(document)):
        assert (ROOT / document).parent.joinpath(target).exists(), target
