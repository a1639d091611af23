"""The house rules that a program can check."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest

import eventclient

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "eventclient"
TESTS: Final = ROOT / "tests"

MAX_MODULE_LINES: Final = 300
MAX_FUNCTION_LINES: Final = 40
BANNED_NAMES: Final = frozenset({"utils", "helpers", "common", "base", "misc", "core", "types"})

LAYERS: Final[dict[str, frozenset[str]]] = {
    "errors": frozenset(),
    "clock": frozenset(),
    "telemetry": frozenset(),
    "model": frozenset({"errors", "telemetry"}),
    "wire": frozenset({"model", "errors"}),
    "policy": frozenset({"model", "errors"}),
    "batching": frozenset({"model", "errors"}),
    "client": frozenset({"batching", "policy", "wire", "model", "telemetry", "errors", "clock"}),
    "recordings": frozenset({"model", "wire", "errors"}),
    "replay": frozenset({"client", "recordings", "model", "errors", "clock"}),
    "devserver": frozenset({"wire", "model", "telemetry", "errors", "clock"}),
    "drill": frozenset({"client", "devserver", "wire", "model", "errors", "clock"}),
    "integrations": frozenset({"client", "model", "errors"}),
}
"""Room -> rooms it may import. The command line puts everything together, so it has no row."""
PURE_ROOMS: Final = ("model", "wire", "policy", "batching", "telemetry", "recordings")
TEST_FOLDERS: Final = {"recordings": "room_recordings"}
"""Rooms whose tests live under another name: `tests/recordings` holds recorded logs."""

LONG_MODULES: Final = {
    "client/client.py": "the front of the library; most of its lines say what its methods promise",
}
"""Modules of more than `MAX_MODULE_LINES`, and why they are one noun."""
LONG_FUNCTIONS: Final = {
    "client/sender.py:send": "the one retry loop, read from top to bottom",
    "wire/requests.py:encode_event": "one pass over an event, on the hot path of every write",
}
"""Functions of more than `MAX_FUNCTION_LINES` without their docstrings, and why they are one thought."""


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        return self.name.partition("/")[0].removesuffix(".py")

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Level and dotted name of each import, also of those only for typing or inside of functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((0, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.level, node.module or ""

    def calls(self) -> Iterator[str]:
        """What is called, as it is written."""
        return (ast.unparse(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (
            node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


MODULES: Final = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)


def rooms() -> set[str]:
    return {module.room for module in MODULES if module.name.count("/") >= 1}


def places(*needles: str, ending: bool = False) -> list[str]:
    """Modules that call one of `needles`, once for each call."""
    return [
        module.name
        for module in MODULES
        for call in module.calls()
        if (call.endswith(needles) if ending else call in needles)
    ]


def importers(*names: str) -> set[str]:
    return {
        module.name
        for module in MODULES
        for level, name in module.imports()
        if level == 0 and name.partition(".")[0] in names
    }


# -- layers ------------------------------------------------------------------------------------


@each_module
def test_a_room_imports_only_what_it_may(module: Module) -> None:
    for level, name in module.imports():
        if level or name.partition(".")[0] != "eventclient":
            continue
        assert name != "eventclient" or module.room == "cli", "nobody inside comes in by the front door"
        target = name.split(".")[1] if "." in name else ""
        if module.room in LAYERS and target != module.room:
            assert target in LAYERS[module.room], f"{module.room} must not know {target}"
        if target == module.room and "/" in module.name:
            assert module.name.count("/") > 1, f"inside a room imports are relative: {name}"


def test_every_room_has_its_layer() -> None:
    assert rooms() - {"cli"} <= set(LAYERS)
    assert PACKAGE.joinpath("cli").is_dir()


def test_the_layers_have_no_circle() -> None:
    left = dict(LAYERS)
    while left:
        free = [room for room, needs in left.items() if not needs & set(left)]
        assert free, f"a circle among {sorted(left)}"
        for room in free:
            del left[room]


@each_module
def test_relative_imports_stay_in_their_room(module: Module) -> None:
    assert all(level <= 1 for level, _ in module.imports())
    if "/" not in module.name:
        assert all(level == 0 for level, _ in module.imports())


# -- doors -------------------------------------------------------------------------------------


def test_the_front_door_shows_what_it_imports_in_order() -> None:
    (front,) = (module for module in MODULES if module.name == "__init__.py")
    imported = {
        alias.asname or alias.name
        for node in front.tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(eventclient.__all__) == imported
    assert len(set(eventclient.__all__)) == len(eventclient.__all__)

    def order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert eventclient.__all__ == sorted(eventclient.__all__, key=order)
    assert all(hasattr(eventclient, name) for name in eventclient.__all__)


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_has_a_door_sign(room: str) -> None:
    sign = Module(PACKAGE / room / "__init__.py")
    assert len(sign.tree.body) == 1
    assert ast.get_docstring(sign.tree)
    assert len(sign.text.splitlines()) <= 10


@each_module
def test_every_module_says_what_it_is(module: Module) -> None:
    assert ast.get_docstring(module.tree)


@each_module
def test_names_say_what_is_inside(module: Module) -> None:
    assert not BANNED_NAMES & {part.removesuffix(".py").strip("_") for part in module.name.split("/")}


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


# -- mirror ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [module for module in MODULES if module.room in PURE_ROOMS and not module.name.endswith("__init__.py")],
    ids=lambda module: module.name,
)
def test_every_pure_module_has_its_test_file(module: Module) -> None:
    folder = TESTS / TEST_FOLDERS.get(module.room, module.room)
    assert (folder / f"test_{module.path.name}").exists()


@pytest.mark.parametrize("name", ["errors", "clock"])
def test_so_have_the_modules_at_the_top(name: str) -> None:
    assert (TESTS / f"test_{name}.py").exists()


# -- one place for each ------------------------------------------------------------------------


def test_there_is_one_sleep() -> None:
    assert places("asyncio.sleep") == ["clock.py"]
    sleepers = [
        "client/sender.py",
        "clock.py",
        "devserver/injection.py",
        "drill/injection.py",
        "drill/stalls.py",
    ]
    assert sorted(places(".sleep", ending=True)) == sleepers


def test_one_place_reads_time_and_chance() -> None:
    # What a drill draws comes from its seed and never from chance.
    assert importers("time", "random") <= {"clock.py", "drill/plan.py"}
    assert set(places("datetime.now", "datetime.utcnow", "datetime.today", "date.today")) == {"clock.py"}


def test_one_place_reads_the_environment() -> None:
    readers = {
        module.name
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")
    }
    assert {name for name in readers if not name.startswith("cli/")} == {"client/environment.py"}


def test_one_place_knows_cbor() -> None:
    assert importers("cbor2") == {"wire/codec.py"}


def test_one_place_sends_requests() -> None:
    inside = {name for name in importers("aiohttp") if name.startswith("client/")}
    assert inside == {"client/transport.py", "client/client.py"}
    # Elsewhere in the client the name stands in annotations only.
    assert all(call.partition(".")[0] != "aiohttp" for call in Module(PACKAGE / "client/client.py").calls())
    for module in MODULES:
        names = {name for level, name in module.imports() if level == 0 and name.startswith("aiohttp")}
        if names and module.room not in ("client",):
            assert not any("ClientSession" in call for call in module.calls()), module.name


@each_module
def test_nothing_is_printed_outside_of_the_command_line(module: Module) -> None:
    assert module.room == "cli" or module.name == "__main__.py" or "print" not in set(module.calls())


# -- sizes -------------------------------------------------------------------------------------


@each_module
def test_a_module_is_one_noun(module: Module) -> None:
    if len(module.text.splitlines()) > MAX_MODULE_LINES:
        assert module.name in LONG_MODULES


@each_module
def test_a_function_is_one_thought(module: Module) -> None:
    for function in module.functions():
        if _length(function) > MAX_FUNCTION_LINES:
            assert f"{module.name}:{function.name}" in LONG_FUNCTIONS


def test_exceptions_are_still_needed() -> None:
    long_modules = {module.name for module in MODULES if len(module.text.splitlines()) > MAX_MODULE_LINES}
    long_functions = {
        f"{module.name}:{function.name}"
        for module in MODULES
        for function in module.functions()
        if _length(function) > MAX_FUNCTION_LINES
    }
    assert set(LONG_MODULES) <= long_modules
    assert set(LONG_FUNCTIONS) <= long_functions


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    docstring = ast.get_docstring(function, clean=False)
    return lines - (docstring.count("\n") + 1 if docstring else 0)
