"""Real Debezium in Kafka Connect (standalone): what the tests hold our events against, and whom
the benchmarks race.

A worker is one JVM; connectors come and go through its REST interface. Jars are the set
``debezium`` of ``jars.lock``. Names of settings are Debezium's and Kafka Connect's own.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cdc.errors import StackError
from jobs.spark.jars import jars
from stack import process
from stack.jvm import class_path_command
from stack.ports import HOST, free_port
from stack.server import tail, without

_START_TIMEOUT_S: Final = 90.0
_REQUEST_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_ENVIRON = ("KAFKA_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
_WORKER: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "1000",
}
# The modes whose events ours follow.
_CONNECTOR: Final = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "skipped.operations": "none",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "interval.handling.mode": "string",
    "binary.handling.mode": "base64",
    "poll.interval.ms": "50",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that answers."""

    process: process.Process
    port: int
    log: Path

    @contextmanager
    def connector(
        self, name: str, dsn: str, publication: str, settings: Mapping[str, str]
    ) -> Iterator[None]:
        """A connector from a database's ``publication`` to topics that begin with ``name``, which
        also names its slot; an existing slot is read from where it stands. Taken away at the end.

        Raises ``StackError`` when the worker refuses it.
        """
        source = urlsplit(dsn)
        config = {
            **_CONNECTOR,
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": publication,
            "database.hostname": source.hostname,
            "database.port": str(source.port),
            "database.user": source.username,
            "database.password": source.password or "unused",
            "database.dbname": source.path.removeprefix("/"),
            **settings,
        }
        with self.configured(name, config):
            yield

    @contextmanager
    def configured(self, name: str, config: Mapping[str, str | None]) -> Iterator[None]:
        """A connector of any class. Taken away at the end.

        Raises ``StackError`` when the worker refuses it.
        """
        path = f"/connectors/{quote(name)}"
        self._ask("PUT", f"{path}/config", config)
        try:
            yield
        finally:
            if process.alive(self.process):
                self._ask("DELETE", path)

    def check(self, name: str) -> None:
        """Raise ``StackError`` when the worker has ended or the connector has failed."""
        if not process.alive(self.process):
            raise StackError(f"Kafka Connect ended; see {self.log}:\n{tail(self.log, 0)}")
        status = self._ask("GET", f"/connectors/{quote(name)}/status")
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                reason = part.get("trace", "").partition("\n")[0]
                raise StackError(f"the connector {name} failed: {reason}; see {self.log}")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = HTTPConnection(HOST, self.port, timeout=_REQUEST_TIMEOUT_S)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            raise StackError(f"Kafka Connect does not answer: {error}; see {self.log}") from None
        finally:
            connection.close()
        if answer.status >= 300:
            raise StackError(f"Kafka Connect refuses {method} {path}: {text.decode()[:500]}")
        return json.loads(text) if text else None


@contextmanager
def worker(
    bootstrap: str, directory: Path, heap: Sequence[str], class_path: Sequence[Path] = ()
) -> Iterator[Worker]:
    """Kafka Connect with files in ``directory`` and JVM options ``heap``; killed at the end.

    ``class_path``: instead of the jars of Debezium's source.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "offsets").unlink(missing_ok=True)  # of an earlier worker
    port = free_port(set())
    properties = {
        **_WORKER,
        "bootstrap.servers": bootstrap,
        "offset.storage.file.filename": directory / "offsets",
        "listeners": f"http://{HOST}:{port}",
    }
    settings = directory / "worker.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = class_path_command(directory, heap, class_path or jars("debezium"))
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]
    log = directory / "debezium.log"
    running = process.spawn(command, log, directory, without(os.environ, _ENVIRON))
    try:
        started = Worker(running, port, log)
        _await_answer(started)
        yield started
    finally:
        process.kill(running)


def _await_answer(started: Worker) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        if not process.alive(started.process):
            raise StackError(f"Kafka Connect ended; see {started.log}:\n{tail(started.log, 0)}")
        try:
            started._ask("GET", "/connectors")
        except StackError:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(_POLL_S)
        else:
            return
