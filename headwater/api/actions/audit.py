"""Who did what when, and what came of it: a file that lines are added to, and nothing else. An
action whose line cannot be written is not begun."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from cdc.errors import RetryableError
from headwater.pipeline.work import AuditLine

NAME: Final = "audit.jsonl"
_READ_BYTES: Final = 1 << 20
"""So much of its end is shown at most."""


class Audit:
    """Any thread may call it. The file may be moved away at any time: the next line begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, line: AuditLine) -> None:
        """Add a line, on the disk when it returns. Raises ``RetryableError`` where that fails."""
        body = json.dumps(asdict(line), ensure_ascii=False).encode() + b"\n"
        try:
            with self._lock:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                descriptor = os.open(self._path, flags, 0o600)
                try:
                    _all(descriptor, body)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise RetryableError(
                f"the audit log cannot be written: {error.strerror}",
                f"make room, or correct {self._path}: nothing is done without it",
            ) from None

    def newest(self, most: int) -> list[AuditLine]:
        """The newest lines, the newest first. Reads up to a megabyte. Raises ``RetryableError``
        where that fails."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _READ_BYTES))
                tail = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RetryableError(
                f"the audit log cannot be read: {error.strerror}", f"correct {self._path}"
            ) from None
        lines = tail.split(b"\n")
        if size > _READ_BYTES:
            lines = lines[1:]  # the first one is a piece
        return [one for _, one in zip(range(most), _parsed(reversed(lines)), strict=False)]


def line(
    who: str,
    role: str,
    address: str,
    action: str,
    of: str,
    arguments: Mapping[str, Any],
    outcome: str,
    job: str = "",
    detail: str = "",
) -> AuditLine:
    """As of now."""
    now_s = round(time.time(), 3)
    return AuditLine(now_s, who, role, address, action, of, dict(arguments), outcome, job, detail)


def _all(descriptor: int, body: bytes) -> None:
    while body:
        body = body[os.write(descriptor, body) :]


def _parsed(lines: Iterator[bytes]) -> Iterator[AuditLine]:
    """Without what a full disk has cut off."""
    for one in lines:
        try:
            yield AuditLine(**json.loads(one))
        except (ValueError, TypeError):
            continue
