"""Programs of ours in Java that run on jars of others: compiled once, into the cache.

The compiler is itself a jar: a Java runtime is enough.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cdc.errors import StackError
from jobs.spark.jars import cache_directory, jars
from jobs.spark.java import find_java

_TIMEOUT_S: Final = 120


def compiled(name: str, source: Path, libraries: Sequence[Path], lock: Path) -> Path:
    """The folder that holds the classes of one file, compiled against ``libraries`` of ``lock``.

    Raises ``StackError`` when it does not compile.
    """
    key = hashlib.sha256(source.read_bytes() + lock.read_bytes()).hexdigest()[:16]
    target = cache_directory() / f"{name}-{key}"
    if target.is_dir():
        return target
    class_path = ":".join(str(path) for path in libraries)
    with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".compile-") as scratch:
        out = Path(scratch) / "classes"
        compiler = [str(find_java()), "-jar", str(jars("compiler")[0]), "-17", "-nowarn"]
        done = subprocess.run(
            [*compiler, "-proc:none", "-cp", class_path, "-d", str(out), str(source)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise StackError(f"{source.name} does not compile: {done.stderr[-500:]}")
        try:
            out.rename(target)
        except OSError:
            if not target.is_dir():  # else another command was faster
                raise
            shutil.rmtree(out)
    return target
