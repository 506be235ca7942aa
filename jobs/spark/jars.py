"""The jars servers and Spark need: pinned by ``jars.lock``, fetched once, checked, kept in a cache.

``jars.lock`` names every file of a set by its Maven coordinate and SHA-256; it is written by
``python -m stack.jars_lock``. The cache is outside of any project's data: ``$HEADWATER_CACHE`` or
``~/.cache/headwater``. A file is moved into it only when whole and right, so a download that was
cut never counts as done.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import StackError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LOCK = Path(__file__).with_name("jars.lock")
LOG_STORE = Path(__file__).with_name("s3-log-store.jar")
"""Ours, of ``S3LogStore.java``, by ``python -m stack.log_store``; no set but Spark's has it."""
_PARALLEL = 4  # downloads at a time: more gains nothing on one connection
_TRIES = 3
_TIMEOUT_S = 60

Advance = Callable[[int, int], None]
"""Called with (files there, files wanted) while a set is being fetched."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a set: its Maven coordinate ``group:artifact:version`` and its SHA-256."""

    coordinate: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where it lies under the cache: Maven's own layout."""
        group, artifact, version = self.coordinate.split(":")
        return Path(*group.split("."), artifact, version, f"{artifact}-{version}.jar")


def cache_directory() -> Path:
    """Where downloads are kept, whoever started the servers and wherever their data is."""
    named = os.environ.get("HEADWATER_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "headwater"


def locked(set_name: str, lock: Path = LOCK) -> tuple[Jar, ...]:
    """The files of a set in the order of its class path."""
    sets = tomllib.loads(lock.read_text(encoding="utf-8"))
    if set_name not in sets:
        raise StackError(
            f"no set of jars is called {set_name}", f"choose from {', '.join(sorted(sets))}"
        )
    return tuple(Jar(coordinate, digest) for coordinate, digest in sets[set_name].items())


def jars(set_name: str, advance: Advance | None = None, lock: Path = LOCK) -> list[Path]:
    """The files of a set, downloaded if the cache does not have them yet.

    Raises ``StackError`` when a file cannot be had or is not the one that was pinned.
    """
    wanted = locked(set_name, lock)
    cache = cache_directory() / "jars"
    missing = [jar for jar in wanted if not (cache / jar.path).is_file()]
    if missing:
        _download(missing, cache, len(wanted), advance or (lambda _done, _all: None))
    return [*(cache / jar.path for jar in wanted), *([LOG_STORE] if set_name == "spark" else [])]


def _download(missing: Sequence[Jar], cache: Path, total: int, advance: Advance) -> None:
    done = total - len(missing)
    advance(done, total)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        waiting = [pool.submit(_fetch, jar, cache) for jar in missing]
        try:
            for future in as_completed(waiting):
                future.result()
                done += 1
                advance(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(jar: Jar, cache: Path) -> None:
    """Bring one file into the cache: into a scratch folder first, moved when it is right."""
    target = cache / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    reason = ""
    for _ in range(_TRIES):
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as scratch:
            try:
                path = _resolve(jar.coordinate, Path(scratch))
            except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
                reason = str(error) or type(error).__name__
                continue
            digest = sha256(path)
            if digest == jar.sha256:
                path.replace(target)
                return
            reason = f"its SHA-256 is {digest}, not {jar.sha256}"
    raise StackError(
        f"{jar.coordinate} could not be downloaded: {reason}",
        f"check the network, or put the file at {target}",
    )


def _resolve(coordinate: str, into: Path) -> Path:
    from jgo.maven import MavenContext

    group, artifact, version = coordinate.split(":")
    context = MavenContext(repo_cache=into, timeout=_TIMEOUT_S)
    component = context.project(group, artifact).at_version(version)
    return Path(component.artifact().resolve())


def sha256(path: Path) -> str:
    """The file's digest in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """``python -m jobs.spark.jars SET...``: bring sets into the cache, showing how far it is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("jars: {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns) as progress:
        for name in sys.argv[1:]:
            task = progress.add_task(name, total=len(locked(name)))
            jars(name, partial(_show, progress, task))
            progress.update(task, completed=len(locked(name)))


def _show(progress: Progress, task: TaskID, done: int, _total: int) -> None:
    progress.update(task, completed=done)


if __name__ == "__main__":
    try:
        main()
    except StackError as error:
        raise SystemExit(f"error: {error}") from None
