"""One command in a process of its own: its progress, its document, and how it went."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headwater.cli.common.reported_command import REPORTS

_RUN: Final = "from headwater.cli.common.reported_command import main; main()"
_STEPS: Final = 50
_LINE: Final = 500
_MOST_OUTPUT: Final = 1 << 20
_KILLED_S: Final = 60.0
"""A command that is told to stop gets so long: a snapshot finishes the chunks that it reads."""
_ERROR: Final = "error: "
_TRACEBACK: Final = "Traceback (most recent call last):"
_CLASS: Final = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")


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
        # A socket and not a pipe: uvloop closes the descriptor of a pipe twice, and in between it
        # may be somebody else's.
        ours, theirs = socket.socketpair()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _RUN,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, REPORTS: str(theirs.fileno())},
                limit=_MOST_OUTPUT,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if self._told:
            self.stop()
        assert process.stdin is not None, "it is a pipe"
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(self._arguments).encode())
            process.stdin.close()
        try:
            output, *_ = await asyncio.gather(
                _read(process.stdout), self._listen(process.stderr), self._reports(ours)
            )
        except BaseException:  # nobody would watch it any more
            self.kill()
            raise
        finally:
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
        """With the processes that it has started: it leads a session of its own."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _listen(self, stream: asyncio.StreamReader | None) -> None:
        """Lines for people; logs, which are JSON, are not. Of a traceback, which may quote values
        of rows, and of all that follows it the names of exceptions are kept alone."""
        assert stream is not None, "it is a pipe"
        is_hint = is_fault = in_frames = False
        async for text in _lines(stream):
            if text == _TRACEBACK:
                is_fault = in_frames = True
            elif is_fault:
                if in_frames and text and not text.startswith(" "):
                    in_frames = False
                    if found := _CLASS.match(text):
                        self.errors.append(f"it ended with {found[0]}"[:_LINE])
            elif text.startswith(_ERROR) or (is_hint and text.startswith(" ")):
                self.errors.append(text.removeprefix(_ERROR)[:_LINE])
                is_hint = True
            else:
                is_hint = False
                if text and not text.startswith("{"):
                    self.steps.append(text[:_LINE])

    async def _reports(self, taken: socket.socket) -> None:
        """What is no report, as one that was cut off, is passed over."""
        try:
            reader, writer = await asyncio.open_unix_connection(sock=taken, limit=_MOST_OUTPUT)
        except BaseException:
            taken.close()
            raise
        try:
            async for text in _lines(reader):
                with suppress(ValueError, KeyError, TypeError):
                    self._take(json.loads(text))
        finally:
            writer.close()

    def _take(self, report: dict[str, Any]) -> None:
        if "rows" in report:
            self.rows, self.expected = report["rows"], report["expected"]
        else:
            self.fault = {name: report[name] for name in ("kind", "message", "hint")}


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Without those that are longer than any."""
    while True:
        try:
            read = await stream.readline()
        except ValueError:
            continue
        except ConnectionError:
            return
        if not read:
            return
        yield read.decode(errors="replace").rstrip()


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """The document; the rest of one that is larger than any is thrown away."""
    assert stream is not None, "it is a pipe"
    found = bytearray()
    while piece := await stream.read(_MOST_OUTPUT):
        if len(found) <= _MOST_OUTPUT:
            found += piece
    return bytes(found)
