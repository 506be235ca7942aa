"""What the log of ``headwater apply`` says while it is written: what is being done, and views that
stopped while the others go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cdc.errors import FatalError


class JobLog:
    """Follows a log that is written meanwhile. A line counts when it is whole.

    ``doing`` is what is done for views now, in words; "" before anything is.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._read, self._rest = log, 0, b""
        self.doing = ""

    def follow(self) -> None:
        """Read on. Raise ``FatalError`` with what a view said when it stopped, if one did since."""
        for line in self._fresh():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:  # kill -9 cut one off, and the next process went on there
                continue
            if not isinstance(entry, dict):
                continue
            if entry.get("event") == "view_stopped":
                raise FatalError(
                    f"view {entry['view']} stopped: {entry['error']}", f"see {self._log}"
                )
            self.doing = _words(entry) or self.doing

    def _fresh(self) -> list[bytes]:
        try:
            with self._log.open("rb") as log:
                log.seek(self._read)
                found = log.read()
        except FileNotFoundError:
            return []
        self._read += len(found)
        *whole, self._rest = (self._rest + found).split(b"\n")
        return whole


def _words(entry: dict[str, Any]) -> str:
    """What a line says of work on a view; "" for any other line."""
    event = entry.get("event")
    if event == "mirror_filling":
        return f"reading {entry['table']} into the state database: {entry['rows']:,} rows"
    if event == "view_loading":
        return f"{entry['view']}: {entry['rows']:,} rows written"
    if event == "view_build":
        return f"{entry['view']}: {entry['step']}"
    return ""
