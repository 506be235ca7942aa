"""Commands that run, and those that ended lately."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog

from cdc.errors import RetryableError
from cdc.log_events import LogEvent
from headwater.actions.commands import Command
from headwater.api.access.principal import Principal, Role
from headwater.api.actions.audit import Audit, line
from headwater.api.actions.process import Process
from headwater.api.actions.refusals import Refusals
from headwater.api.problems import ProblemError, unavailable
from headwater.pipeline.work import AuditLine, Job, Status

_AT_ONCE: Final = 4
_KILLED_S: Final = 2.0
"""For jobs that were ended by force, to be written down."""
_REMEMBERED: Final = 200
_HIDDEN: Final = "why is shown to who began it"
_STATUSES: Final = {"usage": HTTPStatus.BAD_REQUEST, "passes": HTTPStatus.SERVICE_UNAVAILABLE}

log = structlog.get_logger("serve")


@dataclass(slots=True)
class _Running:
    id: str
    command: Command
    who: Principal
    address: str
    process: Process
    begun_at_s: float
    asks: bool
    task: asyncio.Task[None] | None = None
    ended_at_s: float | None = None
    status: Status = "running"
    result: dict[str, Any] | None = None
    kind: str = ""
    detail: str = ""
    hint: str = ""

    def shown_to(self, who: Principal) -> Job:
        """What is said of single rows is for who has named them."""
        command, process = self.command, self.process
        steps, detail, hint = tuple(process.steps), self.detail, self.hint
        if command.quotes and (who.name, who.proof) != (self.who.name, self.who.proof):
            steps, detail, hint = (), _HIDDEN if detail else "", ""
        return Job(
            self.id, command.action, command.of, self.who.name, self.status, self.begun_at_s,
            self.ended_at_s, steps, process.rows, process.expected, self.result, detail, hint,
        )  # fmt: skip


class Jobs:
    """Use from the event loop. ``done`` is called when something may have changed."""

    def __init__(self, config_path: Path, log_of: Audit, done: Callable[[], None]) -> None:
        self._config_path, self._audit, self._done = config_path, log_of, done
        self._jobs: dict[str, _Running] = {}
        self._refusals = Refusals()

    async def start(
        self, who: Principal, address: str, command: Command, asks: bool = False
    ) -> Job:
        """Begin it. ``asks``: it tells another job of the same view or snapshot something, and does
        not wait for jobs that do not. Raises ``ProblemError`` for who may not act, and for what has
        to wait."""
        await self._refuse_viewer(who, address, command)
        running = [one for one in self._jobs.values() if one.status == "running"]
        same = [one for one in running if one.command.of == command.of != ""]
        if same and not asks:
            other = same[0]
            raise ProblemError(
                HTTPStatus.CONFLICT, "busy", f"{other.command.action} of {command.of} is running",
                f"wait for job {other.id}, or stop it", more={"job": other.id},
            )  # fmt: skip
        if sum(one.asks == asks for one in running) >= _AT_ONCE:
            raise unavailable("too-many-jobs", f"{_AT_ONCE} jobs are running", "wait for one")
        process = Process(self._config_path, command.arguments)
        one = _Running(secrets.token_hex(8), command, who, address, process, time.time(), asks)
        self._remember(one)  # before anything is awaited: nobody else begins the same meanwhile
        try:
            await self._write(self._line(who, address, command, "begun", one.id))
        except BaseException:
            del self._jobs[one.id]
            raise
        one.task = asyncio.create_task(self._run(one))
        return one.shown_to(who)

    async def settled(self, job_id: str, who: Principal, seconds: float) -> Job:
        """Their job when it has ended, or after so long. Raises ``ProblemError`` for one that is
        not known, and as its command has refused it."""
        one = self._find(job_id)
        if one.task is not None:
            await asyncio.wait([one.task], timeout=seconds)
        if one.status == "failed" and one.kind:
            status = _STATUSES.get(one.kind, HTTPStatus.CONFLICT)
            raise ProblemError(status, "refused", one.detail, one.hint, more={"job": one.id})
        return one.shown_to(who)

    def find(self, job_id: str, who: Principal) -> Job:
        """As ``who`` may see it. Raises ``ProblemError`` for one that is not known."""
        return self._find(job_id).shown_to(who)

    def all(self, who: Principal) -> list[Job]:
        """The newest first."""
        return [one.shown_to(who) for one in reversed(self._jobs.values())]

    async def stop(self, who: Principal, address: str, job_id: str) -> Job:
        """Have it end, as Ctrl-C would. Raises ``ProblemError``."""
        one = self._find(job_id)
        stopping = Command("job stop", one.id, (), {"action": one.command.action})
        await self._refuse_viewer(who, address, stopping)
        await self._write(self._line(who, address, stopping, "done", one.id))
        if one.status == "running":
            one.process.stop()
        return one.shown_to(who)

    async def end(self, seconds: float) -> None:
        """The server ends: so do its jobs, after so long by force. How each ended is written down
        when this returns."""
        tasks = [one.task for one in self._jobs.values() if one.task and not one.task.done()]
        for one in self._jobs.values():
            if one.status == "running":
                one.process.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for one in self._jobs.values():
            one.process.kill()
        if left := [task for task in tasks if not task.done()]:
            await asyncio.wait(left, timeout=_KILLED_S)

    async def _refuse_viewer(self, who: Principal, address: str, command: Command) -> None:
        """Raise ``ProblemError`` for who may not act. What they send is written down in short."""
        if who.role == Role.OPERATOR:
            return
        if (why := self._refusals.line_of(who.name, "no operator")) is not None:
            short = {
                name: len(given) if isinstance(given, list) else given
                for name, given in command.recorded.items()
            }
            refused = replace(command, recorded=short)
            await self._write(self._line(who, address, refused, "refused", "", why))
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "not-operator", f"{who.name} is not an operator",
            "grant the role with `headwater serve add-user` or `add-token`",
        )  # fmt: skip

    async def _run(self, one: _Running) -> None:
        try:
            await one.process.run()
            self._judge(one)
        except Exception as error:
            one.status, one.detail = "failed", f"the command could not be run: {error!r}"
        one.ended_at_s = time.time()
        told = "" if one.command.quotes else one.detail
        ended = self._line(one.who, one.address, one.command, one.status, one.id, told)
        try:
            await self._write(ended)
        except RetryableError as error:
            log.error(LogEvent.AUDIT_NOT_WRITTEN, job=one.id, reason=str(error))
        self._done()

    def _judge(self, one: _Running) -> None:
        process, command = one.process, one.command
        if process.document is not None:
            one.result = command.shown(process.document)
        answered = command.answers and process.code == 1 and one.result is not None
        if process.fault is not None:
            one.kind = process.fault["kind"]
            one.detail, one.hint = process.fault["message"], process.fault["hint"]
        elif process.code and not answered:
            one.kind = "fatal"
            one.detail = "\n".join(process.errors) or f"the command ended with {process.code}"
        one.status = "failed" if one.detail else "done"

    def _find(self, job_id: str) -> _Running:
        found = self._jobs.get(job_id)
        if found is None:
            raise ProblemError(
                HTTPStatus.NOT_FOUND, "unknown-job", "there is no such job",
                "jobs are forgotten at a restart: GET /audit says what came of them",
            )  # fmt: skip
        return found

    def _remember(self, one: _Running) -> None:
        self._jobs[one.id] = one
        over = [job for job in self._jobs.values() if job.status != "running"]
        for job in over[: max(0, len(self._jobs) - _REMEMBERED)]:
            del self._jobs[job.id]

    def _line(
        self, who: Principal, address: str, command: Command, outcome: str, job: str,
        detail: str = "",
    ) -> AuditLine:  # fmt: skip
        return line(
            who.name, who.role.value, address, command.action, command.of, command.recorded,
            outcome, job, detail,
        )  # fmt: skip

    async def _write(self, one: AuditLine) -> None:
        await asyncio.to_thread(self._audit.write, one)
