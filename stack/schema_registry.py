"""A schema registry on loopback: Apicurio, which speaks Confluent's API, from Maven's repository.

It keeps schemas in memory. The archive is pinned by its SHA-256, fetched once, and unpacked in the
cache of downloads.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cdc.errors import StackError
from jobs.spark.jars import cache_directory, sha256
from jobs.spark.java import find_java
from stack import process
from stack.jvm import FAST_START
from stack.ports import HOST, free_port
from stack.process import Process

VERSION: Final = "3.0.9"
"""The newest that runs on Java 17."""
_SHA256: Final = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_GROUP, _ARTIFACT = "io.apicurio", "apicurio-registry-app"
_OWN_API: Final = "/apis/registry/v2"
_START_TIMEOUT_S, _POLL_S = 180.0, 0.1
_API: Final = "/apis/ccompat/v7"


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """``url`` is Confluent's API."""

    port: int
    process: Process
    log: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}{_API}"

    @property
    def own_url(self) -> str:
        """Apicurio's own API."""
        return f"http://{HOST}:{self.port}{_OWN_API}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request of Confluent's API."""
        connection = HTTPConnection(HOST, self.port, timeout=60)
        sent = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        connection.request(method, urlsplit(self.url).path + path, sent, headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, f"{method} {path}: {response.status} {text.decode()}"
        return json.loads(text)


@contextmanager
def schema_registry(directory: Path) -> Iterator[SchemaRegistry]:
    """The server, when it answers; killed at the end. Raises ``StackError``."""
    directory.mkdir(parents=True, exist_ok=True)
    port, log = free_port(set()), directory / "registry.log"
    environ = {**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": HOST}
    home = unpacked()
    command = [str(find_java()), *FAST_START.split(), "-Xmx400m", "-jar"]
    command.append(str(home / f"{_ARTIFACT}-{VERSION}-runner.jar"))
    running = process.spawn(command, log, directory, environ)
    made = SchemaRegistry(port, running, log)
    try:
        _await_answer(made)
        yield made
    finally:
        process.kill(running)


def _await_answer(registry: SchemaRegistry) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not _answers(registry):
        if not process.alive(registry.process) or time.monotonic() > deadline:
            raise StackError(f"the schema registry does not start; see {registry.log}")
        threading.Event().wait(_POLL_S)


def _answers(registry: SchemaRegistry) -> bool:
    try:
        return isinstance(registry.ask("GET", "/subjects"), list)
    except (OSError, HTTPException, AssertionError):
        return False


def unpacked() -> Path:
    """The server's files, downloaded and unpacked if the cache lacks them."""
    home = cache_directory() / "schema-registry" / VERSION
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as scratch:
        archive = _downloaded(Path(scratch))
        digest = sha256(archive)
        if digest != _SHA256:
            raise StackError(f"the SHA-256 of {archive.name} is {digest}, not {_SHA256}")
        with tarfile.open(archive) as files:
            files.extractall(Path(scratch) / "files", filter="data")
        (Path(scratch) / "files").rename(home)
    return home


def _downloaded(into: Path) -> Path:
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=into, timeout=60)
    component = context.project(_GROUP, _ARTIFACT).at_version(VERSION)
    return Path(component.artifact(classifier="all", packaging="tar.gz").resolve())
