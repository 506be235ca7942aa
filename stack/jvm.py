"""Launching a server that is a set of jars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jobs.spark.jars import jars
from jobs.spark.java import find_java

JVM_OPTIONS: Final = "jvm.options"
"""A setting of a server: options of its Java, apart by spaces."""
FAST_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a server that lives for minutes or has little to do."""
_LOGGING = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


def java_command(
    directory: Path, set_name: str, options: Sequence[str], more: Sequence[Path] = ()
) -> list[str]:
    """``java`` with memory options, logging to stdout and the class path of a set of jars."""
    return class_path_command(directory, options, [*more, *jars(set_name)])


def class_path_command(
    directory: Path, options: Sequence[str], class_path: Sequence[Path]
) -> list[str]:
    """The same with any class path."""
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="utf-8")
    return [
        str(find_java()),
        *options,
        f"-Dlog4j2.configurationFile={logging}",
        "-Dlog4j2.disable.jmx=true",
        "-cp",
        ":".join(str(path) for path in class_path),
    ]
