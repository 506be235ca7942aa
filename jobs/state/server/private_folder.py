"""Folders below ``apply.state``: they hold rows of the source, and are their owner's alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_OWNER: Final = 0o700
PASSED_THROUGH: Final = 0o711
"""Of root's folders: the embedded server, which does not run as root, enters one below, by its
name. Nobody lists them."""


def private_folder(folder: Path) -> None:
    """Make it, and those missing above it; take the others' rights to it away, where it is ours.

    Raises ``OSError``.
    """
    above = PASSED_THROUGH if os.geteuid() == 0 else _OWNER
    for one in reversed([one for one in folder.parents if not one.exists()]):
        one.mkdir(mode=above, exist_ok=True)
    folder.mkdir(mode=_OWNER, exist_ok=True)
    found = folder.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~_OWNER:
        folder.chmod(_OWNER)
