"""Flink SQL in one process: a mini cluster that runs a script of statements and ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stack.java_source import compiled
from stack.jvm import FAST_START, class_path_command
from stack.server import without
from tests.support.consumers.consumer_jars import LOCK, consumer_jars

_SOURCE: Final = Path(__file__).with_name("FlinkSql.java")
_TIMEOUT_S: Final = 240
_ENVIRON: Final = ("FLINK_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
_OPENED: Final = ("java.lang", "java.util", "java.time", "java.nio", "sun.nio.ch")


def flink_sql(directory: Path, statements: Sequence[str]) -> str:
    """Run statements to the end of their bounded jobs. Returns what Flink has printed.

    Raises ``AssertionError`` with the error of the statement that failed.
    """
    libraries = consumer_jars("flink")
    program = compiled("flink-sql", _SOURCE, libraries, LOCK)
    script = directory / "statements.sql"
    script.write_text("".join(f"{statement};\n" for statement in statements), encoding="utf-8")
    options = ["-Xmx768m", *FAST_START.split(), "-Duser.timezone=UTC"]
    options += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    command = class_path_command(directory, options, [program, *libraries])
    done = subprocess.run(
        [*command, "FlinkSql", str(script)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        cwd=directory,
        env=without(os.environ, _ENVIRON),
        check=False,
    )
    (directory / "flink.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    causes = [line for line in done.stderr.splitlines() if line.startswith("Caused by:")]
    assert done.returncode == 0, "\n".join(causes[-3:]) or done.stderr[-2_000:]
    return done.stdout
