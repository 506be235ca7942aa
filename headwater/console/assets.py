"""Style, script and icon: few files, named by their content, so that browsers may keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

PREFIX: Final = "/console/static"
_TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx-4.0.1.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """``mark`` is of its content."""

    kind: str
    body: bytes
    mark: str


@cache
def assets() -> Mapping[str, Asset]:
    """By file name."""
    folder = files("headwater.console") / "static"
    found = {}
    for name, kind in _TYPES.items():
        body = (folder / name).read_bytes()
        found[name] = Asset(kind, body, hashlib.sha256(body).hexdigest()[:16])
    return found


def asset(name: str) -> str:
    """Its path."""
    return f"{PREFIX}/{name}?{assets()[name].mark}"
