"""Headwater itself as the demo runs it: one capture, one Spark job, and commands in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cdc.errors import FatalError
from demo.job_log import JobLog
from demo.run_folder import Home
from stack.child_process import Process, last_line, run, tail


class Pipeline:
    """The processes of one run. ``stop`` ends what still runs."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.capture = self._process("capture", "capture")
        self.job = self._process("Spark job", "apply", "--json")
        self._followed = JobLog(self.job.log)

    def check(self) -> None:
        """Raise ``FatalError`` when a process died unasked, with the tail of its log, or when a
        view stopped, with what it said."""
        for process in (self.capture, self.job):
            process.check()
        self._followed.follow()

    @property
    def doing(self) -> str:
        """What `headwater apply` does for its views now, in words."""
        return self._followed.doing

    def stop(self) -> None:
        """Stop all, the readers of the log first."""
        for process in (self.job, self.capture):
            process.ask_to_stop()
        for process in (self.job, self.capture):
            process.stop()

    def command(
        self, verb: str, *arguments: str, timeout_s: float, on_wait: Callable[[str], None]
    ) -> dict[str, Any]:
        """Run ``headwater VERB ... --json`` to its end and give the document it printed.
        ``on_wait`` hears several times a second what the command has said last.

        One with an exit code 1 counts too: it tells of differences. Raises ``FatalError`` with
        the tail of the command's log when it prints none or does not end in time.
        """
        log = self._home.log(" ".join((verb, *arguments[:1])))
        given = self._arguments(verb, *arguments, "--json")
        code, printed = run(
            f"headwater {verb}", given, log, timeout_s, lambda _pid: on_wait(last_line(log))
        )
        try:
            document: dict[str, Any] = json.loads(printed)
        except json.JSONDecodeError:
            raise FatalError(f"headwater {verb} ended with exit code {code}\n{tail(log)}") from None
        return document

    def job_log(self) -> list[str]:
        """Every line the Spark job has logged."""
        return self.job.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def tails(self) -> str:
        """The ends of all logs, for a fault that is no single process's."""
        return "\n".join(tail(process.log) for process in (self.capture, self.job))

    def _process(self, name: str, *arguments: str) -> Process:
        given = self._arguments(*arguments)
        return Process(name, given, self._home.log(name), self._home.guardian)

    def _arguments(self, *arguments: str) -> list[str]:
        return ["--config", str(self._home.config_path), *arguments]
