"""``headwater`` as a process of its own, without its start: forked from one that has imported all.

Half a second of imports for each command is a third of the whole suite's time. A template imports
once; each command is a fork of it, with a pid, a session, signals and an exit code like any other
process. The real start is tested with ``tests/unit/headwater/cli/test_cli_app.py`` and
``tests/acceptance``.

The template (``python -m tests.support.servers.forked_command``) reads requests, each a line of
JSON with three descriptors: stdout, stderr and a pipe. It forks a keeper, which forks the command,
writes its pid into the pipe, waits for it and writes its exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from tests.chaos.faults.step_kills import die_as_told
from tests.support.commands.kill_points import kill_as_told
from tests.support.commands.short_waits import wait_as_told
from tests.support.servers.lent_jvm import borrow_as_told
from tests.support.servers.state_copies import copy_state_databases

PRELOADED: Final = (
    *("cdc.capture.loop", "cdc.capture.health", "headwater.cli.init.steps", "cdc.lag.measure"),
    *("headwater.check", "rich.progress", "rich.table"),
    *("cdc.metrics.server", "headwater.lag.samples", "headwater.lag.snapshot_watch"),
    *(
        "jobs.without_mirrors.views",
        "jobs.sinks",
        "jobs.spark.text_udf",
        "deltalake",
        "pyarrow.parquet",
    ),
    *(
        "jobs.run.process",
        "verification.view_facts",
        "verification.view_verification",
        "bootstrap.process",
    ),
    *(f"jobs.sinks.{kind}.generations" for kind in ("opensearch", "postgres", "redis")),
    *("jobs.delta_engine.keeper", "pandas"),
)
_LONGEST_S: Final = 3600.0


class Child:
    """A command that was started; as much of ``subprocess.Popen`` as tests use."""

    def __init__(
        self, arguments: Sequence[str], status: int, ended: Callable[[int], None] | None
    ) -> None:
        self._arguments, self._ended = arguments, ended
        self._status = os.fdopen(status, "rb")
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float = _LONGEST_S) -> int:
        """The exit code. Raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self._arguments), timeout)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = int(self._status.readline())
        self._status.close()
        if self._ended is not None:
            self._ended(self.returncode)

    def send_signal(self, number: signal.Signals) -> None:
        """To this process alone, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to it and to all that it started, and wait for its end."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()


class _Template:
    """The process that all commands are forked from, started when the first is."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def request(self, document: bytes, descriptors: Sequence[int]) -> None:
        with self._lock:
            if self._socket is None:
                self._socket = self._start()
            socket.send_fds(self._socket, [document + b"\n"], descriptors)

    def _start(self) -> socket.socket:
        mine, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.servers.forked_command", str(its.fileno())],
                cwd=Path(__file__).parents[3],
                pass_fds=[its.fileno()],
            )
        atexit.register(self._close)
        return mine

    def _close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


_TEMPLATE: Final = _Template()


def start(
    arguments: Sequence[str],
    stdout: IO[str],
    stderr: IO[str],
    environ: Mapping[str, str],
    ended: Callable[[int], None] | None = None,
) -> Child:
    """``headwater`` with these arguments, in a session of its own. ``ended`` is called with
    its exit code when its end is noticed."""
    request = {"arguments": list(arguments), "environ": dict(environ), "cwd": os.getcwd()}
    status, pipe = os.pipe()
    try:
        descriptors = [stdout.fileno(), stderr.fileno(), pipe]
        _TEMPLATE.request(json.dumps(request).encode(), descriptors)
    finally:
        os.close(pipe)
    return Child(arguments, status, ended)


def _serve(requests: socket.socket, folder: str) -> None:
    """Until whoever asks has gone, with whom ``folder`` goes. Returns in each command that is to
    run, and then only there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    while True:
        line, descriptors, *_ = socket.recv_fds(requests, 1 << 16, 3)
        while line and not line.endswith(b"\n"):
            line += requests.recv(1 << 16)
        if not line:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            _keep(json.loads(line), descriptors)
            return
        for each in descriptors:
            os.close(each)


def _keep(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """Fork the command, in which alone this returns, and report its pid and its end."""
    *outputs, status = descriptors
    pid = os.fork()
    if pid:
        for each in outputs:
            os.close(each)
        os.write(status, b"%d\n" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, b"%d\n" % code)
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, each in enumerate(outputs, start=1):
        os.dup2(each, number)
    for each in descriptors:
        os.close(each)
    _become(request)


def _become(request: dict[str, object]) -> None:
    arguments, environ = request["arguments"], request["environ"]
    assert isinstance(arguments, list)
    assert isinstance(environ, dict)
    sys.argv = ["-c", *arguments]
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(str(request["cwd"]))
    borrow_as_told()
    kill_as_told()
    wait_as_told()
    die_as_told()


def _end(code: object) -> None:
    """As the interpreter does, but that what was imported is not taken apart, which would copy all
    of the template."""
    threads: Any = threading
    threads._shutdown()
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def main() -> None:
    """The template; ends as the command does in each of its forks."""
    run: Callable[[], None] = import_module("headwater.cli.app").main
    for name in PRELOADED:
        import_module(name)
    folder = tempfile.mkdtemp(prefix="headwater-state-")
    copy_state_databases(Path(folder))
    gc.freeze()  # else a collection in a fork would copy all of it
    _serve(socket.socket(fileno=int(sys.argv[1])), folder)
    try:
        run()
    except SystemExit as ended:
        _end(ended.code)
    _end(None)


if __name__ == "__main__":
    main()
