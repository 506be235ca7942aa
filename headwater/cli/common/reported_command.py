"""A process that runs one command: its arguments come on stdin, so that no other account of the
machine reads keys of rows in the list of processes. What it prints is the command's own; beside it
a descriptor takes lines of JSON: how many rows it is at, and in the end how it went.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Final

import typer

from cdc.errors import HeadwaterError, RetryableError, UsageError
from headwater.cli.app import app
from headwater.cli.common import row_counts

REPORTS: Final = "HEADWATER_REPORTS"
"""The variable that names the descriptor."""
_EVERY_S: Final = 0.2


def main() -> None:
    """Run it, and exit as it would. Told to stop, it ends as at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reports = os.fdopen(int(os.environ.pop(REPORTS)), "w", encoding="utf-8", buffering=1)
    arguments = json.load(sys.stdin)
    told_s = 0.0

    def told(rows: int, expected: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _EVERY_S:
            told_s = time.monotonic()
            _write(reports, {"rows": rows, "expected": expected})

    row_counts.listener = told
    code, fault = _run(arguments)
    if fault is not None:
        _write(reports, fault)
    sys.stdout.flush()
    sys.exit(code)


def _run(arguments: list[str]) -> tuple[int, dict[str, Any] | None]:
    """The exit code, and what the command was refused with."""
    try:
        return app(arguments, prog_name="headwater", standalone_mode=False) or 0, None
    except HeadwaterError as error:
        return error.exit_code, _fault(error)
    except typer.Abort:
        return 1, None
    except KeyboardInterrupt:
        return 130, {"kind": "stopped", "message": "it was stopped", "hint": ""}
    except Exception as error:
        if (said := getattr(error, "format_message", None)) is None:  # click's, of bad usage
            raise
        return 2, {"kind": "usage", "message": said(), "hint": ""}


def _fault(error: HeadwaterError) -> dict[str, Any]:
    kind = "fatal"
    if isinstance(error, UsageError):
        kind = "usage"
    elif isinstance(error, RetryableError):
        kind = "passes"
    return {"kind": kind, "message": error.message, "hint": error.hint}


def _write(reports: Any, document: dict[str, Any]) -> None:
    try:
        reports.write(json.dumps(document) + "\n")
    except OSError:  # nobody listens any more
        return
