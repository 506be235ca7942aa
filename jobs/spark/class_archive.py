"""What the JVM makes of Spark's classes when it loads them, kept in a file that the next one maps.

Loading and verifying them is a third of the CPU of a short command that starts Spark. HotSpot can
leave its result in an archive (application class-data sharing): ``python -m
jobs.spark.class_archive`` runs a little of what ``headwater apply`` does and keeps what was loaded,
in the environment whose Spark it is. A JVM uses an archive only with the very files it was made of,
down to when they were written, and loads as ever without one: so an environment installed anew has
another archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cdc.errors import StackError
from jobs.spark.jars import LOG_STORE, cache_directory, locked
from jobs.spark.java import java_in_use

_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Else it tells on stdout, where answers are, why it does not use an archive."""
_LIMIT_S: Final = 600.0
_UNFINISHED: Final = "unfinished-"
"""So the folder of an archive begins that is being built; one that was killed leaves it."""
_TRAINING: Final = Path(__file__).with_name("class_training.py")


def archive() -> Path:
    """Where the archive is for the Java in use and the class path of Spark, built or not.

    Raises ``StackError`` when there is no Java.
    """
    java = java_in_use().resolve()
    modules = java.parents[1] / "lib" / "modules"  # the JDK's own classes
    digest = hashlib.sha256(_TRAINING.read_bytes())  # what is loaded for it
    for path in (java, modules, *_class_path()):
        found = path.stat() if path.is_file() else None
        stamp = found and (found.st_size, found.st_mtime_ns)
        digest.update(f"{path}\0{stamp}\0".encode())
    environment = Path(sys.prefix).resolve()  # by whichever link it was reached
    return environment / "share" / "headwater" / f"spark-{digest.hexdigest()[:16]}.jsa"


def _class_path() -> list[Path]:
    """Every jar a driver of this environment starts with: those we add, and Spark's own."""
    spec = find_spec("pyspark")
    package = str(spec and spec.origin)
    spark = Path(os.environ.get("SPARK_HOME") or Path(package).resolve().parent)
    added = [cache_directory() / "jars" / jar.path for jar in locked("spark")]
    return [*added, LOG_STORE, *sorted((spark / "jars").glob("*.jar"))]


def options() -> str:
    """What a JVM is told that it use the archive, as Spark reads options; nothing where none was
    built."""
    path = archive()
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if path.is_file() else ""


def build(path: Path) -> None:
    """Write the archive, whole or not at all: a JVM that maps half of one would crash.

    Raises ``StackError`` when this Java makes none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{_UNFINISHED}*"):
        if time.time() - left.stat().st_mtime > 2 * _LIMIT_S:  # nobody builds for so long
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_UNFINISHED) as directory:
        made = Path(directory) / path.name
        log = Path(directory) / "log"
        environ = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made} -Xlog:disable",
        }
        command = [sys.executable, "-c", _CHILD, directory]
        with log.open("wb") as output:
            done = subprocess.run(
                command, env=environ, stdout=output, stderr=output, timeout=_LIMIT_S, check=False
            )
        if done.returncode or not made.is_file():
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise StackError(f"Spark wrote no archive of its classes\n{said}")
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)
    for other in path.parent.glob("spark-*.jsa"):
        if other != path:  # of files that are no longer there; whoever maps it keeps it
            other.unlink(missing_ok=True)


_MODULE: Final = "jobs.spark.class_training"
_CHILD: Final = f"import sys; from {_MODULE} import load; load(sys.argv[1])"


def main() -> None:
    """Build the archive if there is none. Without it all works, each start is slower."""
    try:
        path = archive()
        if not path.is_file():
            print("keeping Spark's classes loaded, for quicker starts")
            build(path)
    except (StackError, subprocess.SubprocessError, OSError) as error:
        print(f"note: {error}; commands that start Spark will take longer", file=sys.stderr)


if __name__ == "__main__":
    main()
