"""One command in a process of its own: its progress, its document, and how it went."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headwater.cli.common.reported_command import REPORTS

_RUN: Final = "from headwater.cli.common.reported_command import main; main()"
_STEPS: Final = 50
_LINE: Final = 500
_MOST_OUTPUT: Final = 1 << 20
_KILLED_S: Final = 20.0
"""A command that is told to stop gets so long."""
_ERROR: Final = "error: "


class Process:
    """Use from the event loop. ``steps`` are its newest lines, ``fault`` is what it was refused
    with, as ``headwater.cli.common.reported_command`` reports it."""

    def __init__(self, config_path: Path, arguments: Sequence[str]) -> None:
        self._arguments = ["--config", str(config_path), *arguments]
        self._process: asyncio.subprocess.Process | None = None
        self._told = False
        self.steps: deque[str] = deque(maxlen=_STEPS)
        self.errors: deque[str] = deque(maxlen=_STEPS)
        self.rows, self.expected = 0, 0
        self.fault: dict[str, Any] | None = None
        self.document: Any = None
        self.code = 0

    async def run(self) -> None:
        """To its end. Raises ``OSError`` where it cannot be started."""
        begin, end = os.pipe()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _RUN,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(end,),
                env={**os.environ, REPORTS: str(end)},
                limit=_MOST_OUTPUT,
                start_new_session=True,
            )
        except BaseException:
            os.close(begin)
            raise
        finally:
            os.close(end)
        if self._told:
            self.stop()
        assert process.stdin is not None, "it is a pipe"
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(self._arguments).encode())
            process.stdin.close()
        output, *_ = await asyncio.gather(
            _read(process.stdout), self._listen(process.stderr), self._reports(begin)
        )
        self.code = await process.wait()
        with suppress(ValueError):
            self.document = json.loads(output) if output else None
        if self.document is None and output.strip():
            self.steps.extend(output.decode(errors="replace").strip().splitlines())

    def stop(self) -> None:
        """As Ctrl-C would; by force if that does not help."""
        self._told = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            asyncio.get_running_loop().call_later(_KILLED_S, self.kill)

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _listen(self, stream: asyncio.StreamReader | None) -> None:
        """Lines for people; logs, which are JSON, are not."""
        assert stream is not None, "it is a pipe"
        is_hint = False
        while True:
            try:
                read = await stream.readline()
            except ValueError:  # a line without an end
                continue
            if not read:
                return
            text = read.decode(errors="replace").rstrip()
            if text.startswith(_ERROR) or (is_hint and text.startswith(" ")):
                self.errors.append(text.removeprefix(_ERROR)[:_LINE])
                is_hint = True
                continue
            is_hint = False
            if text and not text.startswith("{"):
                self.steps.append(text[:_LINE])

    async def _reports(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        with os.fdopen(descriptor, "rb") as file:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), file
            )
            try:
                while read := await reader.readline():
                    self._take(json.loads(read))
            finally:
                transport.close()

    def _take(self, report: dict[str, Any]) -> None:
        if "rows" in report:
            self.rows, self.expected = report["rows"], report["expected"]
        else:
            self.fault = report


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """The document; the rest of one that is larger than any is thrown away."""
    assert stream is not None, "it is a pipe"
    found = bytearray()
    while piece := await stream.read(_MOST_OUTPUT):
        if len(found) <= _MOST_OUTPUT:
            found += piece
    return bytes(found)
