"""The layout that docs/architecture.md describes, compared with the code."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
KERNEL = (
    "cdc.errors", "cdc.lsn", "cdc.topics", "cdc.routes", "cdc.protocol", "cdc.events",
    "cdc.capture.confirmation", "cdc.capture.duplicate_filter",
)  # fmt: skip
MOST_MODULES = 20
SERVED = ("headwater.api", "headwater.console", "headwater.cli.serve")


def table(heading: str) -> Iterator[list[str]]:
    """The rows of the page's first table below a heading, as cells."""
    section = PAGE.partition(f"## {heading}\n")[2]
    first = next(one for one in section.split("\n\n") if one.startswith("|"))
    return ([cell.strip() for cell in row.strip("|").split("|")] for row in first.splitlines()[2:])


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


FLOORS = {room.strip("/"): int(floor) for floor, rooms, *_ in table("Floors")
          for room in quoted(rooms)}  # fmt: skip
CLIENTS = {
    client: tuple(one.strip("/").removesuffix(".py").replace("/", ".") for one in quoted(places))
    for clients, places, *_ in table("Third-party clients")
    for client in quoted(clients)
}


@cache
def modules() -> Mapping[str, ast.Module]:
    found = {}
    for folder in FLOORS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All that runs: not what stands below ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from statements(node)


@cache
def imports(name: str, typed: bool = True) -> frozenset[str]:
    """Full names of what a module imports; ``from a import b`` counts as ``a.b``. ``typed``: for
    types alone, too."""
    tree = modules()[name]
    nodes = ast.walk(tree) if typed else statements(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


def test_no_import_runs_up_or_sideways() -> None:
    broken = []
    for name in modules():
        here = name.split(".")[0]
        for imported in imports(name):
            there = imported.split(".")[0]
            if there in FLOORS and there != here and FLOORS[there] >= FLOORS[here]:
                broken.append(f"{name} ({FLOORS[here]}) imports {imported} ({FLOORS[there]})")
    assert broken == []


def test_no_two_modules_import_each_other() -> None:
    """Nor do any more of them in a circle."""
    graph = {
        name: {
            module
            for imported in imports(name, typed=False)
            for module in (imported, imported.rpartition(".")[0])
            if module in modules()
            and module != name
            # a package is imported with each of its modules, and is its own docstring mostly
            and not name.startswith(module + ".")
        }
        for name in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def declared(lines: Iterable[str]) -> set[str]:
    """The names of requirements, as ``one_name`` writes them."""
    return {one_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}


def one_name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_what_is_imported_is_of_a_distribution_that_the_wheel_declares() -> None:
    """Not of one that something else brings: it may bring another version, or no longer. Names that
    ``find_spec`` looks for count. Local servers, demo and measurements have an extra of their own,
    and so has `headwater serve`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    always = declared(project["dependencies"])
    local = always | declared(project["optional-dependencies"]["stack"])
    served = always | declared(project["optional-dependencies"]["serve"])
    known = {"argon2": ["argon2-cffi"], **packages_distributions()}
    missing = {}
    for name, tree in modules().items():
        packages = {one.split(".")[0] for one in imports(name)} - sys.stdlib_module_names
        if "importlib.util.find_spec" in imports(name):
            texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant))
            packages |= {str(text).replace("-", "_") for text in texts} & known.keys()
        wanted = local if within(name, ("stack", "demo", "benchmarks")) else always
        wanted = served if within(name, SERVED) else wanted
        for package in packages - FLOORS.keys():
            # What is not installed has the name of its distribution.
            if wanted.isdisjoint(map(one_name, known.get(package, [package]))):
                missing[package] = name
    assert missing == {}


def test_clients_are_imported_where_the_page_says() -> None:
    broken = [
        f"{name} imports {imported}"
        for name in modules()
        for imported in imports(name)
        if (client := imported.split(".")[0]) in CLIENTS
        if not within(name, (*CLIENTS[client], "benchmarks"))
    ]
    assert broken == []


def test_the_kernel_is_the_standard_library_and_a_cipher() -> None:
    broken = [
        f"{name} imports {imported}"
        for name in modules()
        if within(name, KERNEL)
        for imported in imports(name)
        if imported.split(".")[0] not in {*sys.stdlib_module_names, "__future__", "cryptography"}
        and not within(imported, KERNEL)
    ]
    assert broken == []


@pytest.mark.parametrize("module", ["socket", "time", "logging", "threading", "os", "random"])
def test_the_kernel_does_no_io_and_asks_no_clock(module: str) -> None:
    for name in modules():
        if within(name, KERNEL):
            assert not within(module, tuple(imports(name))), f"{name} imports {module}"


def test_folders_files_and_functions_stay_small() -> None:
    for folder in (*FLOORS, "tests"):
        for place in (ROOT / folder, *(ROOT / folder).rglob("*/")):
            beside = [one for one in place.glob("*.py") if one.name != "__init__.py"]
            assert len(beside) <= MOST_MODULES, f"{place.relative_to(ROOT)}: {len(beside)} modules"
    for name, tree in modules().items():
        lines = max((getattr(node, "end_lineno", 0) or 0 for node in tree.body), default=0)
        assert lines <= 300, f"{name} has {lines} lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 70, f"{name}.{node.name} has {lines} lines"


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_tests_have_the_rooms_of_what_they_test(kind: str) -> None:
    """But for those of the project as a whole, and of what tests share."""
    rooms = {
        file.parent.relative_to(ROOT / "tests" / kind)
        for file in (ROOT / "tests" / kind).rglob("test_*.py")
    }
    own = {"project": ROOT / "docs", "support": ROOT / "tests/support"}
    missing = [str(room) for room in rooms if not own.get(str(room), ROOT / room).is_dir()]
    assert missing == []


def test_a_protocol_has_at_most_five_methods() -> None:
    """``Sink`` among them: what a store has to do is told in one look."""
    found = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
                methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                found[f"{name}.{node.name}"] = methods
    assert found["jobs.sinks.contract.Sink"] == ["prepare", "apply", "truncate", "scan", "close"]
    assert not {name: methods for name, methods in found.items() if len(methods) > 5}
