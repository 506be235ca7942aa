"""Few rows go through Spark's interpreter.

Spark makes Java code of each plan and compiles it: 24 classes of 70 ms each for a first small
batch. For some thousand rows the compiler costs more than they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted(session: SparkSession, few: bool = True) -> Iterator[None]:
    """What is evaluated meanwhile by a session, whose thread this is, unless there is not ``few``.

    The session's settings are as they were at the end.
    """
    if not few:
        yield
        return
    were = {name: session.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in were.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)
