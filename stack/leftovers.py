"""Servers that nobody stopped: found by what was recorded of them, stopped by their own pids.

``headwater up`` and ``headwater demo --keep`` leave servers running on purpose, a killed run by
accident. Whoever deletes their folder has to stop them first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from cdc.errors import StackError
from stack import servers, state


def homes_below(folder: Path) -> Iterator[Path]:
    """Every home of servers at or below a folder; what lies in a home itself is not looked at."""
    for place, folders, files in os.walk(folder):
        if state.is_home(files):
            folders.clear()
            yield Path(place)


def purge_below(folder: Path) -> dict[Path, list[str]]:
    """Stop the servers of every home below and delete what is theirs; the names that ran.

    Raises ``StackError`` when it cannot be known what runs in one of them.
    """
    return {home: servers.purge(home) for home in list(homes_below(folder))}


def main() -> None:
    """``python -m stack.leftovers FOLDER``: for the Makefile, before it deletes the folder.

    Works with any Python that Headwater runs on: the environment may be gone already.
    """
    try:
        stopped = purge_below(Path(sys.argv[1]))
    except StackError as error:
        raise SystemExit(f"error: {error}") from None
    for home, names in stopped.items():
        if names:
            print(f"stopped {', '.join(sorted(names))} of {home}")


if __name__ == "__main__":
    main()
