"""Finding a Java that Kafka, OpenSearch and Spark all run on: 17 or 21."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cdc.errors import StackError

VERSIONS = (17, 21)
_HINT = "install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
_VERSION = re.compile(r'version "(\d+)')
_TIMEOUT_S = 30


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The ``java`` of ``JAVA_HOME``, else the first on ``PATH``.

    Raises ``StackError`` when there is none or its version does not serve.
    """
    found = java_in_use(environ)
    version = _major(str(found))
    if version not in VERSIONS:
        raise StackError(f"{found} is Java {version}, which Spark does not support", _HINT)
    return found


def java_in_use(environ: Mapping[str, str] = os.environ) -> Path:
    """As ``find_java``, whether it serves or not.

    Raises ``StackError`` when there is none.
    """
    home = environ.get("JAVA_HOME")
    found = (
        str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    )
    if not found:
        raise StackError("no Java was found", _HINT)
    return Path(found)


def _major(java: str) -> int:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StackError(f"{java} cannot be run: {reason}", _HINT) from None
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        raise StackError(f"{java} does not report its version", _HINT)
    return int(match[1])


def main() -> None:
    """``python -m jobs.spark.java``: print where Java is, or why there is none, for the
    Makefile."""
    try:
        print(find_java())
    except StackError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
