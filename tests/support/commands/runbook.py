"""The procedures of docs/runbook.md, followed as they are written."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import psycopg
import redis

from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until

PAGE: Final = Path(__file__).parents[3] / "docs" / "runbook.md"
VIEW: Final = "open_orders"
SHOWN: Final = """select o.id, c.name from orders o join customers c on c.id = o.customer
         where not o.shipped"""
SERVICES: Final = ("capture", "apply")
CHANGES: Final = (
    "update customers set name = name || '!' where id % 5 = 0",
    "update orders set shipped = true where id % 7 = 0",
    "delete from orders where id % 11 = 0",
    "insert into orders select max(id) + 1, 7, false from orders",
)


def procedure(title: str) -> list[tuple[str, list[str]]]:
    """The commands of a section's console blocks, each with the lines that it prints."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    steps: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    assert steps, title
    return steps


def words(text: str) -> list[str]:
    """What a line has in common with the page's: not its numbers."""
    return [word for word in text.split() if not re.search(r"\d", word)]


@dataclass
class Runbook:
    """A shop with one view, its services as processes, and who follows the page."""

    deployment: Deployment
    home: Path
    cache: redis.Redis
    running: dict[str, ExitStack] = field(default_factory=dict)
    processes: dict[str, Child] = field(default_factory=dict)
    said: dict[str, int] = field(default_factory=dict)  # of each log, when its service was started
    others: dict[str, Deployment] = field(default_factory=dict)
    """Sources of other configuration files."""

    def follow(self, title: str) -> None:
        for command, printed in procedure(title):
            program, *arguments = shlex.split(command.replace(VIEW, self.view))
            if program == "systemctl":
                self.systemctl(*arguments)
            elif program == "rm":
                shutil.rmtree(self.home / "state" / self.deployment.name)
            elif program == "psql":
                self.deployment.execute(arguments[arguments.index("-c") + 1])
            else:
                assert program == "headwater", command
                self.say(command, arguments, printed)

    def say(self, command: str, arguments: list[str], printed: list[str]) -> None:
        of = self.deployment
        if arguments[0] == "--config":
            of, arguments = self.others[arguments[1]], arguments[2:]
        done = of.run(*arguments, timeout_s=600)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}: {said}\n{self.logs()}"
        ours = said.replace(self.view, VIEW).replace(f"{self.deployment.name}b", "billing")
        ours = ours.replace(self.deployment.name, "shop")
        told = [words(line) for line in ours.splitlines()]
        assert all(words(line) in told for line in printed), f"{command}:\n{ours}"

    def systemctl(self, action: str, *units: str) -> None:
        for unit in units:
            service = unit.removeprefix("headwater-")
            assert service in SERVICES
            if action == "start":
                self.running[service] = ExitStack()
                log = self.deployment.home / f"{service}.log"
                self.said[service] = log.stat().st_size if log.exists() else 0
                entered = self.running[service].enter_context(self.deployment.running(service))
                self.processes[service] = entered
            else:
                assert action == "stop"
                self.running.pop(service).close()

    def ended(self, service: str, because: str) -> None:
        """The fault was seen: the process has ended with an error that says so."""
        wait_until(lambda: self.processes[service].poll() is not None, f"{service} to end", 120)
        said = self.deployment.log(service).encode()[self.said[service] :].decode()
        assert because in said, said

    def is_right(self) -> None:
        """What readers see, once changes after the procedure have arrived, too."""
        self.deployment.execute(*CHANGES)
        done = self.deployment.run("wait", self.view, "--timeout", "120")
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        with psycopg.connect(self.deployment.dsn) as conn:
            expected: dict[int, str] = dict(conn.execute(SHOWN).fetchall())
        assert self.documents() == expected
        assert expected

    def rows(self) -> list[str]:
        """The keys of what readers see."""
        live = cast("str", self.cache.get(f"{self.view}@live"))
        found = self.cache.scan_iter(f"{live}:*")
        return sorted(key for key in found if self.cache.hexists(key, "doc"))

    def documents(self) -> dict[int, str]:
        """What readers see: the customer's name by the order's id."""
        found = ((key, cast("str", self.cache.hget(key, "doc"))) for key in self.rows())
        return {int(key.rpartition(":")[2]): json.loads(doc)["name"] for key, doc in found}

    def logs(self) -> str:
        return "\n".join(self.deployment.log(one)[-4_000:] for one in SERVICES)

    @property
    def view(self) -> str:
        return f"{self.deployment.name}_{VIEW}"
