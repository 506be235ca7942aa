"""Which Java is taken, and what is said when none serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import StackError
from jobs.spark.java import find_java


def fake_java(home: Path, answer: str) -> Path:
    """A ``java`` that says this about its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.8"])
def test_java_17_and_21_serve(tmp_path: Path, version: str) -> None:
    java = fake_java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    assert find_java({"PATH": str(java.parent)}) == java


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    wanted = fake_java(tmp_path / "home", 'openjdk version "17.0.1"')
    other = fake_java(tmp_path / "path", 'openjdk version "21.0.1"')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}) == wanted


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('openjdk version "1.8.0_392"', "is Java 1, which Spark does not support"),
        ('openjdk version "11.0.2"', "is Java 11, which Spark does not support"),
        ('openjdk version "25"', "is Java 25, which Spark does not support"),
        ("The operation couldn't be completed", "does not report its version"),
    ],
)
def test_another_answer_is_one_line_that_says_what_to_install(
    tmp_path: Path, answer: str, said: str
) -> None:
    java = fake_java(tmp_path, answer.replace("'", ""))
    with pytest.raises(StackError) as caught:
        find_java({"PATH": str(java.parent)})
    assert said in str(caught.value)
    assert "Install Java 17 or 21" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"no Java was found\. Install Java 17 or 21"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="cannot be run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})
