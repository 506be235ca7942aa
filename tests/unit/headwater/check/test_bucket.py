"""``headwater check`` of a Delta store in S3, against a server that answers as S3 does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cdc.config import Config, load_config
from headwater.check.stores import stores

KEY, SECRET = "AKIAEXAMPLE", "not-to-be-shown"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class _Server(ThreadingHTTPServer):
    """``refused``: the methods that are denied; ``missing``: there is no bucket."""

    refused: frozenset[str] = frozenset()
    missing = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self._read_body()
        self.server.asked.append((self.command, self.path))
        assert f"Credential={KEY}/" in self.headers["Authorization"]
        status, body = 200, b""
        if self.server.missing:
            status = 404
        elif self.command in self.server.refused:
            status, body = 403, _DENIED
        self.send_response(status)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _read_body(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()

    do_HEAD = do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@contextmanager
def _s3() -> Iterator[_Server]:
    with _Server() as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    with _s3() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
        yield server


def _config(directory: Path, path: str, beside: str = "") -> Config:
    file = directory / "headwater.toml"
    file.write_text(
        '[source]\nname = "shop"\ndsn = "host=localhost dbname=shop"\ntables = ["public.*"]\n'
        '[kafka]\nbootstrap_servers = "localhost:9092"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{path}"\n{beside}',
        encoding="utf-8",
    )
    return load_config(file)


def _found(config: Config) -> tuple[str, str, str]:
    (finding,) = stores(config)
    assert SECRET not in f"{finding.message}{finding.hint}"
    return finding.level, finding.message, finding.hint


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_that_can_be_written_is_fine_and_keeps_nothing(
    s3: _Server, tmp_path: Path, scheme: str
) -> None:
    level, message, _ = _found(_config(tmp_path, f"{scheme}://lake/views"))
    assert (level, message) == ("ok", f"delta at {scheme}://lake/views")
    written = {path.partition("?")[0] for method, path in s3.asked if method == "PUT"}
    deleted = {path.partition("?")[0] for method, path in s3.asked if method == "DELETE"}
    (probe,) = written - {"/lake/views/"}
    assert probe.startswith("/lake/views/.headwater-")
    assert deleted == {probe}


def test_a_bucket_that_does_not_exist_is_an_error(s3: _Server, tmp_path: Path) -> None:
    s3.missing = True
    assert _found(_config(tmp_path, "s3a://lake/views")) == (
        "error",
        "delta at s3a://lake/views: bucket lake does not exist",
        "Create it, or correct stores.lake.path.",
    )


@pytest.mark.parametrize(
    ("refused", "doing"),
    [({"HEAD", "GET"}, "read"), ({"PUT"}, "write"), ({"DELETE"}, "write")],
)
def test_credentials_that_lack_a_right_are_an_error_that_names_the_rights(
    s3: _Server, tmp_path: Path, refused: set[str], doing: str
) -> None:
    s3.refused = frozenset(refused)
    level, message, hint = _found(_config(tmp_path, "s3a://lake/views"))
    assert level == "error"
    assert message == f"delta at s3a://lake/views: cannot {doing} bucket lake: access denied"
    assert "s3:PutObject" in hint


@pytest.mark.usefixtures("s3")
def test_no_server_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    level, message, hint = _found(_config(tmp_path, "s3a://lake/views"))
    assert (level, message) == (
        "error",
        "delta at s3a://lake/views: cannot read bucket lake: no answer from S3",
    )
    assert "AWS_ENDPOINT_URL" in hint


def test_settings_of_spark_win_over_the_environment(
    s3: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    beside = "\n".join([
        "[apply.spark]",
        f'"spark.hadoop.fs.s3a.endpoint" = "{s3.url}"',
        f'"spark.hadoop.fs.s3a.access.key" = "{KEY}"',
        f'"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"',
    ])  # fmt: skip
    assert _found(_config(tmp_path, "s3a://lake/views", beside))[0] == "ok"


@pytest.mark.usefixtures("s3")
def test_a_profile_gives_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text(
        f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n", encoding="utf-8"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert _found(_config(tmp_path, "s3a://lake/views"))[0] == "ok"


def test_half_of_the_credentials_is_passed_over_as_by_hadoop(s3: _Server, tmp_path: Path) -> None:
    spark = f'[apply.spark]\n"spark.hadoop.fs.s3a.access.key" = "{KEY}"\n'
    assert _found(_config(tmp_path, "s3a://lake/views", spark))[0] == "ok"
    assert s3.asked
