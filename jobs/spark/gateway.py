"""The JVM of a process, started as PySpark would, by ``spark-submit.sh`` beside this file.

Settings may hold secrets, such as the key of an object store, and every account of a machine can
read the arguments of its processes. So they are handed over in a file that only we can read, which
is gone when the JVM has read it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

_LAUNCHER: Final = Path(__file__).with_name("spark-submit.sh")
_HOME: Final = "SPARK_HOME"
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_SHELL: Final = "pyspark-shell"
"""What PySpark has for its arguments where nobody gives any."""
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "}
_launch: Any = launch_gateway


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start one with Spark's settings, unless this process has one. Where the launcher cannot be
    executed, Spark's own is."""
    if SparkContext._gateway is not None:
        return
    program = {"executable": str(_LAUNCHER)} if os.access(_LAUNCHER, os.X_OK) else {}
    with TemporaryDirectory(prefix="headwater-") as private:
        file = Path(private) / "spark.properties"
        file.write_text(properties(settings), encoding="ascii")
        given = os.environ.get(_ARGUMENTS, _SHELL)
        read = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults {given}"
        with (
            _environ(_HOME, os.environ.get(_HOME) or _find_spark_home()),
            _environ(_ARGUMENTS, read),
        ):
            gateway = _launch(None, program)
    SparkContext._ensure_initialized(gateway=gateway)


def properties(settings: Mapping[str, str]) -> str:
    """Text of a file of ``java.util.Properties``, in ASCII."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    """What separates a name from its value counts in names only, but is escaped everywhere."""
    return "".join(
        _ESCAPES.get(char) or (f"\\{char}" if char in ":=#!" else _in_ascii(char)) for char in text
    )


def _in_ascii(char: str) -> str:
    """As UTF-16, beyond ASCII: ``\\uXXXX``."""
    if char.isascii():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


@contextmanager
def _environ(name: str, value: str) -> Iterator[None]:
    """For the launcher, and for nobody else."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
