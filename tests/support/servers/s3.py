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


@dataclass(frozen=True, slots=True)
class S3:
    """``url`` is its endpoint; a bucket is a folder of ``buckets``."""

    url: str
    buckets: Path
    credentials: Path
    """A file of Amazon's profiles with the one account there is, as the default."""

    def bucket(self, name: str) -> str:
        (self.buckets / name).mkdir()
        return f"s3a://{name}"


@contextmanager
def s3_in(home: Path, guardian: Guardian) -> Iterator[S3]:
    """A server that keeps all below ``home``."""
    program = cache_directory() / "versitygw" / "versitygw"
    assert program.is_file(), f"{program} is missing: run make test, which builds it"
    port, buckets, sidecar = free_port(set()), home / "buckets", home / "sidecar"
    buckets.mkdir()
    sidecar.mkdir()
    credentials = home / "credentials"
    credentials.write_text(
        f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n",
        encoding="utf-8",
    )
    with (home / "s3.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet",
             "posix", "--sidecar", sidecar, buckets],
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=log,
            stderr=log,
        )  # fmt: skip
    guardian.end(process.pid)
    try:

        def answers() -> bool:
            assert process.poll() is None, (home / "s3.log").read_text(encoding="utf-8")
            return ask(port, b"GET / HTTP/1.0\r\n\r\n", 4) == b"HTTP"

        wait_until(answers, "the S3 server to answer")
        yield S3(f"http://127.0.0.1:{port}", buckets, credentials)
    finally:
        process.terminate()
        process.wait(30)
