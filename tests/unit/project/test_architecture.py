"""The import rules of docs/architecture.md, read from the code itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = (
    "headwater",
    "cdc",
    "snapshots",
    "jobs",
    "views",
    "bootstrap",
    "verification",
    "migrations",
    "stack",
    "demo",
)
KERNEL = (
    "cdc.errors", "cdc.lsn", "cdc.topics", "cdc.protocol", "cdc.events",
    "cdc.capture.progress", "cdc.capture.replay",
)  # fmt: skip

# Which module may import a third-party client: the one place that knows it.
CLIENTS = {
    "confluent_kafka": (
        "cdc.kafka.client",
        "cdc.kafka.producer",
        "cdc.kafka.partition_reader",
        "cdc.kafka.range_reader",
    ),
    "kafka": ("cdc.kafka.broker",),
    "psycopg": (
        "cdc.source.postgres",
        "cdc.source.replication",
        "cdc.source.copy_both",
        "cdc.source.copying",
        "migrations",
        "snapshots",
        "jobs.sinks.postgres.client",
        "jobs.sinks.postgres.errors",
        "jobs.state",
    ),
    "pyspark": ("jobs", "bootstrap"),  # there the session is only handed on
    "delta": ("jobs",),
    "opensearchpy": ("jobs.sinks.opensearch.client",),
    "redis": ("jobs.sinks", "stack.redis"),
    "sqlglot": ("views",),
    "numpy": ("cdc.columnar",),
    "msgspec": ("jobs.batch",),
    "pyarrow": (
        "cdc.columnar",
        "jobs.batch",
        "jobs.run",
        "jobs.sinks",
        "jobs.cluster",
        "jobs.state",
        "jobs.spark.text_udf",
    ),
    "deltalake": ("jobs.cluster", "jobs.sinks"),
}
# What each folder may import of ours besides itself.
ALLOWED: dict[str, tuple[str, ...]] = {
    "snapshots": (*KERNEL, "cdc.source.slot", "cdc.source.catalog", "cdc.source.selection",
                  "cdc.source.publication", "cdc.source.copying", "cdc.source.types",
                  "cdc.source.postgres", "cdc.source.schema_owner", "cdc.kafka.topology",
                  "cdc.kafka.producer", "cdc.kafka.bulk", "cdc.kafka.broker", "cdc.config",
                  "cdc.columnar", "cdc.capture.memory"),
    "views": KERNEL,
    # bulk: a view's dead letters are few, and durable before its batch goes on
    "jobs": (*KERNEL, "cdc.config", "cdc.tls", "cdc.kafka.broker", "cdc.kafka.bulk",
             "cdc.kafka.security", "cdc.kafka.range_reader", "cdc.kafka.partition_reader",
             "cdc.source.slot", "cdc.source.catalog", "cdc.source.postgres",
             "cdc.source.copying", "cdc.source.types", "cdc.source.selection",
             "cdc.source.position", "cdc.source.publication", "cdc.source.bounded_query", "views",
             "migrations.runner", "jobs.spark.jars", "jobs.spark.java"),
    "migrations": ("cdc.errors", "cdc.source.postgres", "cdc.source.schema_owner"),
    "stack": ("cdc.errors", "jobs.spark.jars", "jobs.spark.java"),
}  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for folder in OURS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path) -> set[str]:
    """Full names of what a module imports; ``from a import b`` counts as ``a.b``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value)[-40:])
def test_imports_follow_the_layout(name: str, path: Path) -> None:
    broken = []
    for imported in sorted(imports(path)):
        top = imported.split(".")[0]
        if top in CLIENTS and not within(name, CLIENTS[top]):
            broken.append(f"{imported}: only {', '.join(CLIENTS[top])} may import {top}")
        if within(name, KERNEL):
            stdlib = top in sys.stdlib_module_names or top == "__future__"
            if not stdlib and not within(imported, KERNEL):
                broken.append(f"{imported}: the kernel imports itself and the standard library")
        folder = name.split(".")[0]
        if folder in ALLOWED and top in OURS and top != folder:
            may = ALLOWED[folder]
            if not within(imported, may):
                broken.append(f"{imported}: {folder}/ may import {', '.join(may)}")
        outside = ("snapshots", "jobs", "bootstrap", "verification", "demo", "stack")
        composes = within(name, ("headwater.cli", "headwater.check"))
        if folder == "cdc" and not composes and top in outside:
            broken.append(f"{imported}: only the command line composes the parts")
    assert not broken, f"{name}\n" + "\n".join(broken)


@pytest.mark.parametrize("module", ["socket", "time", "logging", "threading", "os", "random"])
def test_the_kernel_does_no_io_and_asks_no_clock(module: str) -> None:
    for name, path in modules():
        if within(name, KERNEL):
            assert not within(module, tuple(imports(path))), f"{name} imports {module}"


def test_files_and_functions_stay_small() -> None:
    for name, path in modules():
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 320, f"{name} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 70, f"{name}.{node.name} has {lines} lines"


def test_a_protocol_has_at_most_five_methods() -> None:
    """``Sink`` among them: what a store has to do is told in one look."""
    found = {}
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
                methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                found[f"{name}.{node.name}"] = methods
    assert found["jobs.sinks.Sink"] == ["prepare", "apply", "truncate", "scan", "close"]
    assert not {name: methods for name, methods in found.items() if len(methods) > 5}
