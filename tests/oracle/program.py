"""Programs of others that are asked what they make of lines of ours."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from jobs.spark.java import find_java


def answers(command: Sequence[str], lines: Sequence[str]) -> list[str]:
    """One for each line. The command gets two more arguments: the file that has the lines, and the
    one that it writes. Raises ``CalledProcessError`` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        sent, found = Path(folder) / "sent", Path(folder) / "found"
        sent.write_text("\n".join(lines) + "\n", encoding="utf-8")
        subprocess.run([*command, str(sent), str(found)], check=True)
        return found.read_text(encoding="utf-8").splitlines()


def of_java(program: Path, jars: Iterable[Path]) -> list[str]:
    """The command that runs a source file of Java."""
    return [str(find_java()), "-cp", ":".join(map(str, jars)), str(program)]
