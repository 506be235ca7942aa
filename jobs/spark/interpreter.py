"""Few rows go through Spark's interpreter, in one task.

Spark makes Java code of each plan and compiles it: 24 classes of 70 ms each for a view's first
batch, and for a join again in many later ones, whose plans hold other values. For some thousand
rows the compiler costs more than they do; so their plans are made without it.

A join would be three or four jobs, one for each side that is sent to all tasks. Where both sides
are ``of_one_part`` it is one job of one task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # It moves a join below what says that rows are of one part.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer"
    ".PushDownLeftSemiAntiJoin",
}


def of_one_part(rows: DataFrame) -> DataFrame:
    """Few rows, of which Spark knows that they are in one place: whatever joins or groups them
    needs not move them."""
    return rows.coalesce(1)


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
