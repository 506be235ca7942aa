"""A disk that takes no more (full, a quota, a limit), told from whatever else a fault may quote.

The system's words for it may stand in a value, and what Spark and Delta say quotes values. So they
count only where no value can be: at the end of what Java's own exceptions of files say, or Spark's
of rows that it sets aside, as the error of a Python worker's last line, and with Rust's number
behind them at the end of what delta-rs says. Java has the words from the C library, in English if
``jobs.spark.session`` started it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any, Final

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WORDS: Final = "|".join(map(os.strerror, _NO_ROOM))
_ENDS: Final = re.compile(rf"(?:\A|: ?|\()({_WORDS})\)?\s*\Z")
_OF_RUST: Final = re.compile(rf"(?::|\u21b3\S*) ?({_WORDS}) \(os error \d+\)\s*\Z")
_OF_PYTHON: Final = re.compile(
    r"^\w*Error: \[Errno (\d+)\][^\n]*\s*(?:SQLSTATE: \w+\s*)?\Z", re.MULTILINE
)
_FILES: Final = re.compile(r"java\.(?:io|nio\.file)\.\w+")
_WORKERS: Final = "org.apache.spark.api.python.PythonException"
_OF_SPILLS: Final = re.compile(rf": ({_WORDS})\s*(?:SQLSTATE: \w+\s*)?\Z")
_SPILLS: Final = "org.apache.spark.memory.SparkOutOfMemoryError"
"""Spark's, where rows that memory has no room for cannot be written either; without a cause."""
_DEEPEST: Final = 20


def no_room(error: BaseException) -> str:
    """What the system says of the disk, if that is what ``error`` is about; else nothing."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return os.strerror(error.errno)
    java = list(thrown(error))
    if not java:
        found = _OF_RUST.search(str(error))
        return found[1] if found else ""
    for name, message in java:
        if _FILES.fullmatch(name) and (said := told_no_room(message)):
            return said
        if name == _SPILLS and (spilt := _OF_SPILLS.search(message)):
            return spilt[1]
        last = _OF_PYTHON.search(message) if name == _WORKERS else None
        if last is not None and int(last[1]) in _NO_ROOM:
            return os.strerror(int(last[1]))
    return ""


def told_no_room(message: str) -> str:
    """What the system says of a disk at the end of a message that quotes nothing behind it."""
    found = _ENDS.search(message)
    return found[1] if found else ""


def thrown(error: BaseException) -> Iterator[tuple[str, str]]:
    """The classes of Java's exceptions behind one of Python's, and what each says."""
    python: Any = error
    for _ in range(_DEEPEST):
        if python is None:
            return
        java = getattr(python, "java_exception", None) or getattr(python, "_origin", None)
        if java is not None:
            yield from _causes(java)
            return
        if (text := getattr(python, "_desc", None)) is None:
            return
        name, _, message = text.partition(": ")  # as Java has it, where PySpark has no class for it
        yield name, message
        python = python._cause


def _causes(java: Any) -> Iterator[tuple[str, str]]:
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield str(java.getClass().getName()), str(java.getMessage() or "")
        java = java.getCause()
