"""The real servers of one machine: start, stop, kill, look.

Everything of a set of servers is under one home: data, logs, ``state.json``. Servers outlive the
process that starts them; a second ``start`` reuses what runs and restarts what is dead, on the
same ports and data.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cdc.errors import StackError, UsageError
from stack import process, state
from stack.kafka import Kafka
from stack.opensearch import OpenSearch
from stack.ports import HOST, free_port, is_free
from stack.postgres import Postgres, outside_directory
from stack.redis import Redis
from stack.server import Place, Server, log_size, tail
from stack.state import ServerState

# In the order they are launched: the slowest first.
SERVERS: Mapping[str, Server] = {
    server.traits.name: server for server in (OpenSearch(), Kafka(), Postgres(), Redis())
}
DEFAULT_HOME = Path(".headwater/stack")
_POLL_S = 0.05

Notice = Callable[[str, str], None]
"""Called with a server's name and what happens to it: preparing, starting, ready, stopped."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the servers that run, by name."""

    addresses: Mapping[str, str]

    @property
    def postgres_dsn(self) -> str:
        """Superuser, database ``postgres``, no password (loopback only)."""
        return self._of("postgres")

    @property
    def kafka_bootstrap(self) -> str:
        return self._of("kafka")

    @property
    def opensearch_url(self) -> str:
        return self._of("opensearch")

    @property
    def redis_url(self) -> str:
        return self._of("redis")

    def _of(self, name: str) -> str:
        if name not in self.addresses:
            raise StackError(f"{name} does not run", f"run `headwater up --only {name}`")
        return self.addresses[name]


@dataclass(frozen=True, slots=True)
class Status:
    """One line of ``headwater status``."""

    name: str
    condition: str
    """``running``; ``deaf`` runs but does not answer; ``dead`` ended unasked; ``stopped``."""
    pid: int | None
    address: str
    since: str
    log: Path


def start(
    home: Path,
    only: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    notice: Notice = lambda _name, _what: None,
) -> Endpoints:
    """Have the servers (all, or ``only`` these) running and answering.

    ``settings`` are further settings by server; a server that runs with others is restarted.
    Raises ``StackError`` with the tail of the log when one does not come up; the others stay.
    """
    home = home.resolve()
    names = _checked(only)
    with state.locked(home):
        known = state.load(home)
        launched: dict[str, int] = {}  # name to the size of its log before
        for name in names:
            wanted = (settings or {}).get(name)
            if process.alive(known[name].process if name in known else None):
                if wanted is None or dict(wanted) == dict(known[name].settings):
                    launched[name] = 0
                    continue
                # What refuses the new settings does so while it still runs with the old ones.
                SERVERS[name].prepare(_place(home, replace(known[name], settings=dict(wanted))))
                _stop(home, known, [name])
            notice(name, "preparing")
            launched[name] = _launch(home, known, name, wanted)
            notice(name, "starting")
        _await_answers(home, known, launched, notice)
        return _endpoints(home, known)


def stop(home: Path, only: Sequence[str] | None = None) -> list[str]:
    """Stop the servers that run; gives their names. What we did not start is not touched."""
    home = home.resolve()
    if not home.is_dir():
        return []
    with state.locked(home):
        known = state.load(home)
        return _stop(home, known, [name for name in _checked(only) if name in known])


def kill(home: Path, name: str) -> None:
    """SIGKILL one server and everything below it, as a crash would. ``start`` brings it back."""
    home = home.resolve()
    known = state.load(home)
    _checked([name])
    server = known.get(name)
    if server is None or not process.alive(server.process):
        raise StackError(f"{name} is not running under {home}")
    process.kill(server.process)


def endpoints(home: Path) -> Endpoints:
    """Addresses of what runs under ``home`` now."""
    return _endpoints(home.resolve(), state.load(home.resolve()))


def status(home: Path) -> list[Status]:
    """Every server, whether it was ever started here or not."""
    home = home.resolve()
    known = state.load(home)
    return [_status(home, name, known.get(name)) for name in sorted(SERVERS)]


def purge(home: Path) -> list[str]:
    """Stop the servers and delete their data, logs and state; other files of ``home`` stay.

    Gives the names of those that ran.
    """
    home = home.resolve()
    if not (home / "lock").exists():
        return []
    ran = stop(home)
    with state.locked(home):
        for name in (*SERVERS, "log"):
            shutil.rmtree(home / name, ignore_errors=True)
        shutil.rmtree(outside_directory(home), ignore_errors=True)
        for name in ("state.json", "state.new", "lock"):
            (home / name).unlink(missing_ok=True)
    if not any(home.iterdir()):
        home.rmdir()
    return ran


def _checked(names: Sequence[str] | None) -> list[str]:
    for name in names or ():
        if name not in SERVERS:
            raise UsageError(
                f"no server is called {name}", f"choose from {', '.join(sorted(SERVERS))}"
            )
    return [name for name in SERVERS if names is None or name in names]


def _place(home: Path, server: ServerState) -> Place:
    return Place(Path(server.data), server.ports, server.settings, _log(home, server.name))


def _log(home: Path, name: str) -> Path:
    return home / "log" / f"{name}.log"


def _launch(home: Path, known: state.State, name: str, settings: Mapping[str, str] | None) -> int:
    """Start one process and note it. Gives the size of its log before."""
    server = known.get(name) or _new(home, known, name)
    if settings is not None:
        server = replace(server, settings=dict(settings))
    log = _log(home, name)
    log.parent.mkdir(exist_ok=True)
    before = log_size(log)
    for port in server.ports.values():
        if not is_free(port):
            raise StackError(
                f"{name}: port {port} on {HOST} is taken by another program",
                "stop that program, or run `headwater down --purge` to choose new ports",
            )
    launch = SERVERS[name].prepare(_place(home, server))
    started = process.spawn(launch.command, log, launch.directory, launch.environ, launch.user)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    state.put(home, known, replace(server, process=started, since=now))
    return before


def _new(home: Path, known: state.State, name: str) -> ServerState:
    taken = {port for server in known.values() for port in server.ports.values()}
    ports: dict[str, int] = {}
    traits = SERVERS[name].traits
    for port_name in traits.ports:
        ports[port_name] = free_port(taken | set(ports.values()), traits.second_port)
    return ServerState(name=name, ports=ports, data=str(SERVERS[name].directory(home)))


def _await_answers(
    home: Path, known: state.State, launched: Mapping[str, int], notice: Notice
) -> None:
    """Wait until all answer. One that dies or takes too long is ended and reported."""
    started = time.monotonic()
    waiting = list(launched)
    while waiting:
        for name in list(waiting):
            place = _place(home, known[name])
            limit_s = SERVERS[name].traits.start_timeout_s
            if not process.alive(known[name].process):
                _give_up(home, known, name, "ended while starting", launched[name])
            if SERVERS[name].answers(place):
                waiting.remove(name)
                notice(name, "ready")
            elif time.monotonic() - started > limit_s:
                what = f"does not answer after {limit_s:.0f} s"
                _give_up(home, known, name, what, launched[name])
        threading.Event().wait(_POLL_S)


def _give_up(home: Path, known: state.State, name: str, what: str, log_from: int) -> None:
    process.kill(known[name].process)
    state.put(home, known, state.stopped(known[name]))
    log = _log(home, name)
    raise StackError(f"{name} {what}; see {log}, which ends:\n{tail(log, log_from)}")


def _stop(home: Path, known: state.State, names: Sequence[str]) -> list[str]:
    """Ask all at once, then wait for each; whoever does not go in time is killed."""
    running = [name for name in names if process.alive(known[name].process)]
    for name in running:
        process.send(known[name].process, SERVERS[name].traits.stop_signal)
    for name in running:
        if not process.wait_gone(known[name].process, SERVERS[name].traits.stop_timeout_s):
            process.kill(known[name].process)
    for name in names:
        known[name] = state.stopped(known[name])
    state.save(home, known)
    return running


def _endpoints(home: Path, known: state.State) -> Endpoints:
    return Endpoints(
        {
            name: SERVERS[name].address(_place(home, server))
            for name, server in known.items()
            if process.alive(server.process)
        }
    )


def _status(home: Path, name: str, server: ServerState | None) -> Status:
    log = _log(home, name)
    if server is None:
        return Status(name, "stopped", None, "", "", log)
    place = _place(home, server)
    address = SERVERS[name].address(place)
    if server.process is None:
        return Status(name, "stopped", None, address, "", log)
    if not process.alive(server.process):
        return Status(name, "dead", None, address, server.since, log)
    condition = "running" if SERVERS[name].answers(place) else "deaf"
    return Status(name, condition, server.process.pid, address, server.since, log)
