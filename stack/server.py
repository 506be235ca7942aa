"""What the four servers have in common: a place, a way to launch, a way to ask if they answer."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cdc.errors import StackError
from stack.ports import HOST
from stack.process import User, as_user

_ANSWER_TIMEOUT_S = 2
_STEP_TIMEOUT_S = 180
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server lives: the same before and after a restart."""

    directory: Path
    ports: Mapping[str, int]
    settings: Mapping[str, str]
    log: Path


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a server's process and how it is run."""

    command: Sequence[str | Path]
    directory: Path
    environ: Mapping[str, str]
    user: User | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What is constant about a kind of server."""

    name: str
    ports: tuple[str, ...] = ("main",)
    second_port: int = 0
    """How far above each port the server may take another by itself; 0: it does not."""
    stop_signal: signal.Signals = signal.SIGTERM
    start_timeout_s: float = 60
    stop_timeout_s: float = 30
    environ_prefixes: tuple[str, ...] = field(default=())
    """Variables of the caller that would change the server and are kept from it."""


class Server(Protocol):
    """One kind of server. Methods raise ``StackError`` with the way out."""

    @property
    def traits(self) -> Traits: ...

    def directory(self, home: Path) -> Path:
        """Where it keeps what it owns; asked once, then remembered."""

    def prepare(self, place: Place) -> Launch:
        """Make ready what a first start needs and say how to launch. Safe to repeat."""

    def answers(self, place: Place) -> bool:
        """Whether a client would be served now. Quick; never raises for a server that is down."""

    def address(self, place: Place) -> str:
        """What clients are configured with."""


def ask(port: int, question: bytes, answer_bytes: int) -> bytes:
    """Send bytes to a port on loopback and read at most so many; ``b""`` if nobody answers."""
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_TIMEOUT_S) as connection:
            connection.sendall(question)
            answer = b""
            while len(answer) < answer_bytes:
                part = connection.recv(answer_bytes - len(answer))
                if not part:
                    break
                answer += part
            return answer
    except OSError:
        return b""


def run_step(what: str, launch: Launch, log: Path) -> None:
    """Run a command that a first start needs; its output goes to the server's log.

    Raises ``StackError`` with the tail of that log when it fails.
    """
    log_from = log_size(log)
    with log.open("ab") as output:
        done = subprocess.run(
            [str(part) for part in launch.command],
            cwd=launch.directory,
            env=dict(launch.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_STEP_TIMEOUT_S,
            check=False,
            **as_user(launch.user),
        )
    if done.returncode != 0:
        raise StackError(f"{what} failed; see {log}, which ends:\n{tail(log, log_from)}")


def log_size(log: Path) -> int:
    """Bytes written so far."""
    return log.stat().st_size if log.exists() else 0


def tail(log: Path, log_from: int) -> str:
    """The last lines of what was written after so many bytes."""
    with log.open("rb") as file:
        file.seek(log_from)
        lines = file.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines)


def without(environ: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """The environment less the variables that begin so."""
    return {name: value for name, value in environ.items() if not name.startswith(prefixes)}
