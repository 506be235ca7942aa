"""The lock file and the cache of jars."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from cdc.errors import StackError
from jobs.spark import jars as module
from jobs.spark.jars import LOCK, Jar, jars, locked
from tests.support.consumers.consumer_jars import LOCK as CONSUMERS

RIGHT = b"the whole file"
JAR = Jar("org.example:thing:1.0", hashlib.sha256(RIGHT).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a lock file with a set of one jar."""
    lock = tmp_path / "jars.lock"
    lock.write_text(f'[one]\n"{JAR.coordinate}" = "{JAR.sha256}"\n')
    monkeypatch.setattr(module, "locked", lambda name, _lock: locked(name, lock))
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "jars").mkdir(parents=True)
    return tmp_path / "cache" / "jars"


def registry(monkeypatch: pytest.MonkeyPatch, *answers: bytes | Exception) -> list[str]:
    """Stand in for the registry: an answer for each request. Gives what was asked for."""
    asked: list[str] = []

    def resolve(coordinate: str, into: Path) -> Path:
        answer = answers[len(asked)]
        asked.append(coordinate)
        if isinstance(answer, Exception):
            raise answer
        path = into / "download.jar"
        path.write_bytes(answer)
        return path

    monkeypatch.setattr(module, "_resolve", resolve)
    return asked


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        *((LOCK, name) for name in ("kafka", "opensearch", "spark", "compiler")),
        (CONSUMERS, "connect"),
        (CONSUMERS, "flink"),
    ],
)
def test_every_set_is_pinned_by_exact_version_and_checksum(lock: Path, name: str) -> None:
    for jar in locked(name, lock):
        assert re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", jar.coordinate)
        assert not re.search(r"SNAPSHOT|LATEST|RELEASE", jar.coordinate)
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)


def test_a_set_holds_no_artifact_twice() -> None:
    for name in ("kafka", "opensearch", "spark"):
        artifacts = [jar.coordinate.rsplit(":", 1)[0] for jar in locked(name)]
        assert len(artifacts) == len(set(artifacts))


def test_the_lock_files_name_no_registry() -> None:
    for lock in (LOCK, CONSUMERS, CONSUMERS.with_name("pathway.lock")):
        assert "://" not in lock.read_text()


def test_an_unknown_set_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        StackError, match=r"called flink\. Choose from avro, compiler, debezium, kafka"
    ):
        locked("flink")


def test_a_jar_is_downloaded_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = registry(monkeypatch, RIGHT)
    assert jars("one") == jars("one") == [cache / JAR.path]
    assert (cache / JAR.path).read_bytes() == RIGHT
    assert asked == [JAR.coordinate]


def test_a_download_that_was_cut_is_tried_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, RIGHT[:5], ConnectionError("reset"), RIGHT)
    assert jars("one") == [cache / JAR.path]
    assert (cache / JAR.path).read_bytes() == RIGHT


def test_a_file_that_is_not_the_pinned_one_never_reaches_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(monkeypatch, b"other", b"other", b"other")
    with pytest.raises(StackError, match=r"org.example:thing:1.0 .* SHA-256 is .*, not"):
        jars("one")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_progress_counts_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.is_dir()
    registry(monkeypatch, RIGHT)
    seen: list[tuple[int, int]] = []
    jars("one", lambda done, total: seen.append((done, total)))
    assert seen == [(0, 1), (1, 1)]
