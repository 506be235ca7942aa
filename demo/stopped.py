"""Views that stopped, as the Spark job's log tells it: the job goes on with the others."""

from __future__ import annotations

import json
from pathlib import Path

from cdc.errors import FatalError


class StoppedViews:
    """Follows a log that is written meanwhile. A line counts when it is whole."""

    def __init__(self, log: Path) -> None:
        self._log, self._read, self._rest = log, 0, b""

    def check(self) -> None:
        """Raise ``FatalError`` with what a view said when it stopped, if one did since."""
        for line in self._fresh():
            if b'"view_stopped"' not in line:
                continue
            try:
                told = json.loads(line)
            except json.JSONDecodeError:  # kill -9 cut one off, and the next process went on there
                continue
            raise FatalError(f"view {told['view']} stopped: {told['error']}", f"see {self._log}")

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
