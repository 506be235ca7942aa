"""An S3 server on loopback: versitygw, built by ``stack/test_tools.sh``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.spark.jars import cache_directory
from stack.guardian import Guardian
from stack.ports import free_port
from stack.server import ask
from tests.support.waiting import wait_until

KEY, SECRET, REGION = "AKIALAKE", "s3-hunter2", "eu-central-1"


@dataclass(slots=True)
class S3:
    """``port`` is its own; a bucket is a folder of ``buckets``."""

    home: Path
    guardian: Guardian
    port: int
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def buckets(self) -> Path:
        return self.home / "buckets"

    @property
    def credentials(self) -> Path:
        """A file of Amazon's profiles with the one account there is, as the default."""
        return self.home / "credentials"

    def bucket(self, name: str) -> str:
        (self.buckets / name).mkdir()
        return f"s3a://{name}"

    def start(self) -> None:
        """Returns when it answers."""
        program = cache_directory() / "versitygw" / "versitygw"
        assert program.is_file(), f"{program} is missing: run make test, which builds it"
        log = self.home / "s3.log"
        with log.open("a", encoding="utf-8") as stream:
            process = self._process = subprocess.Popen(
                [program, "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet",
                 "posix", "--sidecar", self.home / "sidecar", self.buckets],
                env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
                stdout=stream,
                stderr=stream,
            )  # fmt: skip
        self.guardian.end(process.pid)

        def answers() -> bool:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            return ask(self.port, b"GET / HTTP/1.0\r\n\r\n", 4) == b"HTTP"

        wait_until(answers, "the S3 server to answer")

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def s3_in(home: Path, guardian: Guardian) -> Iterator[S3]:
    """A server that keeps all below ``home``."""
    server = S3(home, guardian, free_port(set()))
    server.buckets.mkdir()
    (home / "sidecar").mkdir()
    server.credentials.write_text(
        f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n",
        encoding="utf-8",
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()
