"""``python -m stack.log_store``: compile ``S3LogStore.java`` into the jar beside it.

Needed only when that file changes. A test holds that the jar is what the pinned compiler makes of
it.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from jobs.spark.jars import LOG_STORE, jars
from jobs.spark.java import find_java

SOURCE = LOG_STORE.with_name("S3LogStore.java")
CLASS = "headwater/S3LogStore.class"
_LEVEL = "17"  # the oldest Java that serves


def compiled() -> bytes:
    """The class that the pinned compiler makes of the source."""
    (compiler,) = jars("compiler")
    spec = find_spec("pyspark")
    hadoop = Path(str(spec and spec.origin)).with_name("jars").glob("hadoop-client-*.jar")
    delta = (jar for jar in jars("spark") if jar.name.startswith("delta-storage-"))
    class_path = ":".join(map(str, [*delta, *sorted(hadoop)]))
    with tempfile.TemporaryDirectory() as directory:
        options = ["--release", _LEVEL, "-nowarn", "-classpath", class_path, "-d", directory]
        command: list[str | Path] = [find_java(), "-jar", compiler, *options, SOURCE]
        subprocess.run(command, check=True)
        return Path(directory, CLASS).read_bytes()


def main() -> None:
    """Write the jar, the same for the same class."""
    with zipfile.ZipFile(LOG_STORE, "w") as jar:
        jar.writestr(zipfile.ZipInfo(CLASS), compiled())


if __name__ == "__main__":
    main()
