"""The archive of Spark's classes: used where there is one, whole or not there at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.errors import StackError
from jobs.spark import class_archive, class_training

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, its name with a space."""
    path = tmp_path / "an environment"
    monkeypatch.setattr(sys, "prefix", str(path))
    return path


def test_nothing_is_said_to_a_jvm_where_no_archive_was_built(environment: Path) -> None:
    assert class_archive.archive().is_relative_to(environment)
    assert class_archive.options() == ""


def test_an_environment_has_one_archive_by_whichever_link_it_is_reached(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = class_archive.archive()
    environment.mkdir()
    link = environment.parent / "link"
    link.symlink_to(environment)
    monkeypatch.setattr(sys, "prefix", str(link))
    assert class_archive.archive() == first


@pytest.mark.usefixtures("environment")
def test_an_archive_is_named_in_quotes_to_a_jvm() -> None:
    path = class_archive.archive()
    path.parent.mkdir(parents=True)
    path.touch()
    assert class_archive.options().startswith(f'"-XX:SharedArchiveFile={path}" ')


def test_another_java_has_another_archive(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ours = class_archive.archive()
    monkeypatch.setenv("JAVA_HOME", str(environment / "jdk"))
    assert class_archive.archive() != ours


def test_spark_installed_anew_has_another_archive(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same jars, written at another time: a JVM does not take the archive of the old ones."""
    jar = environment / "spark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    monkeypatch.setenv("SPARK_HOME", str(environment / "spark"))
    first = class_archive.archive()
    assert class_archive.archive() == first
    os.utime(jar, ns=(1, 1))
    assert class_archive.archive() != first


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("child", ["raise SystemExit('out of luck')", "pass"])
def test_what_ends_early_leaves_no_archive(monkeypatch: pytest.MonkeyPatch, child: str) -> None:
    monkeypatch.setattr(class_archive, "_CHILD", child)
    path = class_archive.archive()
    with pytest.raises(StackError, match="out of luck" if "luck" in child else "no archive"):
        class_archive.build(path)
    assert not list(path.parent.iterdir())


@pytest.mark.usefixtures("environment")
def test_one_that_is_built_takes_the_place_of_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    path = class_archive.archive()
    path.parent.mkdir(parents=True)
    (path.parent / "spark-0123456789abcdef.jsa").touch()
    killed, building = path.parent / "unfinished-a", path.parent / "unfinished-b"
    killed.mkdir()
    building.mkdir()
    os.utime(killed, (1, 1))
    touches = "import sys, pathlib; (pathlib.Path(sys.argv[1]) / '{}').touch()"
    monkeypatch.setattr(class_archive, "_CHILD", touches.format(path.name))
    class_archive.build(path)
    assert {*path.parent.iterdir()} == {path, building}


def test_a_session_maps_the_archive_that_was_built_with_the_environment(
    spark: SparkSession,
) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    maps = Path(f"/proc/{gateway.proc.pid}/maps")
    assert str(class_archive.archive()) in maps.read_text(encoding="utf-8")


def test_what_is_loaded_for_it_works(spark: SparkSession) -> None:
    """An archive is made without what fails, of which nobody hears."""
    class_training.fold_by_tasks(spark)
    class_training.ask_kafka(spark)
