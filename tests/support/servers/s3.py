"""An S3 server on loopback: versitygw, built by ``stack/test_tools.sh``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

from jobs.spark.jars import cache_directory
from stack.guardian import Guardian
from stack.ports import free_port
from stack.server import ask
from tests.support.waiting import wait_until

KEY, SECRET, REGION = "AKIALAKE", "s3-hunter2", "eu-central-1"


def started(
    home: Path, guardian: Guardian, port: int, *arguments: str | Path
) -> subprocess.Popen[bytes]:
    """The program, when it answers. Who has KEY is root there."""
    program = cache_directory() / "s3-server" / "versitygw"
    assert program.is_file(), f"{program} is missing: run make test, which builds it"
    log = home / "versitygw.log"
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", *arguments],
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=stream,
            stderr=stream,
        )
    guardian.end(process.pid)

    def answers() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return ask(port, b"GET / HTTP/1.0\r\n\r\n", 4) == b"HTTP"

    wait_until(answers, "versitygw to answer")
    return process


@dataclass(slots=True)
class S3:
    """``port`` is its own; a bucket is a folder of ``buckets``. ``iam`` is the socket of who knows
    other accounts than root, and their rights."""

    home: Path
    guardian: Guardian
    port: int
    iam: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def place(self) -> dict[str, str]:
        """As ``fs.s3a.*`` tells Hadoop's client where it is."""
        return {"endpoint": self.url, "endpoint.region": REGION, "path.style.access": "true"}

    @property
    def account(self) -> dict[str, str]:
        """Root's, as ``fs.s3a.*`` has it."""
        return {"access.key": KEY, "secret.key": SECRET}

    @property
    def buckets(self) -> Path:
        return self.home / "buckets"

    @property
    def credentials(self) -> Path:
        """A file of Amazon's profiles with the one account there is, as the default."""
        return self.home / "credentials"

    def bucket(self, name: str) -> str:
        """Made by root; a folder that is only there has no owner, and copies within it fail."""
        root = S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region=REGION,
            endpoint_override=self.url,
            allow_bucket_creation=True,
        )
        root.create_dir(name)
        return f"s3a://{name}"

    def start(self) -> None:
        """Returns when it answers."""
        known = ("--iam-standalone-endpoint", self.iam) if self.iam else ()
        kept = ("posix", "--sidecar", self.home / "sidecar", self.buckets)
        self._process = started(self.home, self.guardian, self.port, *known, *kept)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def s3_in(home: Path, guardian: Guardian, iam: Path | None = None) -> Iterator[S3]:
    """A server that keeps all below ``home``."""
    server = S3(home, guardian, free_port(set()), iam)
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
