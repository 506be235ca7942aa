"""A deployment whose `headwater serve` runs, and clients as applications have them."""

from __future__ import annotations

import http.client
import json
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg

from stack.ports import free_port
from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
_EXAMPLE = runpy.run_path(str(EXAMPLES / "follow_table.py"))
Follower: Any = _EXAMPLE["Follower"]
"""The example of the documentation."""


@dataclass(slots=True)
class Answer:
    """Of one request; ``document`` is its JSON."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Served:
    """A server on ``port``; ``settings`` are lines of [serve]."""

    deployment: Deployment
    port: int = field(default_factory=lambda: free_port(set()))
    settings: str = ""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def write(self) -> None:
        section = f'[serve]\nlisten = "127.0.0.1:{self.port}"\n{self.settings}\n'
        self.deployment.extra = self.deployment.extra.partition("[serve]")[0] + section
        self.deployment.write()

    @contextmanager
    def running(self) -> Iterator[Child]:
        self.write()
        with self.deployment.running("serve", "--json") as process:
            self.answers(process)
            yield process

    def answers(self, process: Child) -> None:
        def up() -> bool:
            assert process.poll() is None or self.log()[-1:] == "", self.log()
            with suppress(OSError):
                return self.get("/livez").status == 200
            return False

        wait_until(up, "the server to answer")

    def log(self) -> str:
        return self.deployment.log("serve")

    def get(self, path: str, headers: dict[str, str] | None = None, **query: str) -> Answer:
        return self.ask("GET", path, headers, query=query)

    def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        query: dict[str, str] | None = None,
    ) -> Answer:
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        shown = quote(path) + ("?" + urlencode(query) if query else "")
        try:
            conn.request(method, shown, body, headers or {})
            response = conn.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            conn.close()

    def metric(self, name: str) -> float:
        """The value of the first sample that begins so, as Prometheus reads it; -1 without one.
        ``name`` may have a label: the one of the source stands in front of it."""
        wanted, _, label = name.partition("{")
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(wanted + "{") and label in line:
                return float(line.rpartition(" ")[2])
        return -1.0

    def follower(self, table: str, query: str = "", token: str = "") -> Following:
        return Following(Follower(self.base, table, token, query))


class Following:
    """The documentation's follower on a thread of its own, until it is told to end. Names and ids
    of all events that it takes are remembered."""

    def __init__(self, follower: Any) -> None:
        self.follower = follower
        self.ids: list[str] = []
        self.names: list[str] = []
        self.refused: list[str] = []
        self.opened = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        take = follower.take

        def remembered(event: Any) -> None:
            take(event)
            if self.follower.position:
                self.opened.set()
            if event.name:
                self.names.append(event.name)
                if event.name != "cut":  # it has the id of what was sent before
                    self.ids.append(event.id)
            if self._ending.is_set():
                raise ConnectionError("told to end")

        follower.take = remembered

    def __enter__(self) -> Following:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.follower.follow_once()
            except Exception as error:
                self.refused.append(f"{type(error).__name__}: {error}")
            self._ending.wait(0.05)

    @property
    def rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        return dict(self.follower.rows)


def source_rows(deployment: Deployment, query: str, key: str = "id") -> dict[tuple[Any, ...], Any]:
    """Rows of the source by key, as JSON."""
    with psycopg.connect(deployment.dsn) as conn:
        rows = conn.execute(f"select to_jsonb(t) from ({query}) t".encode()).fetchall()
    return {(row[key],): row for (row,) in rows}
