"""The JVM of the run's Spark, lent to other processes: commands, and drivers that are killed.

Spark's start, and its first queries in a JVM that has compiled nothing yet, cost more CPU than all
else that such a process does. A borrower has a way of its own into the JVM, and a session of its
own; it opens and stops what it takes for a Spark of its own. Once it has ended, also by a kill,
``taken_back`` takes from the JVM what it has left there.

What it has from the lender, and is not itself tested by that: Java's options, the class path, and
Spark's log. ``headwater`` with a JVM of its own is tested by
``tests/integration/headwater/test_apply_command.py``, ``test_cluster.py``, the demo and chaos.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BORROWING: Final = frozenset({"apply", "verify", "view", "replay", "dead-letters"})
"""The verbs that may open Spark."""
_VARIABLE: Final = "HEADWATER_TESTS_JVM"
TAG: Final = "headwater.tests.loan"
"""The setting of a borrower's sessions that tells them apart, by the port of its loan."""


class Loan(NamedTuple):
    """The JVM, as one borrower finds it."""

    port: int
    secret: str

    def environ(self) -> dict[str, str]:
        """For a command that ``borrow_as_told`` is called in."""
        return {_VARIABLE: json.dumps(self)}


class Lender:
    """The session whose JVM is lent. Several may have it at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._servers: dict[Loan, Any] = {}

    def lend(self) -> Loan:
        """Open a way into the JVM, for one process."""
        context: Any = self._spark.sparkContext
        server = context._jvm.org.apache.spark.api.python.Py4JServer(context._jsc.getConf())
        server.start()
        loan = Loan(server.getListeningPort(), server.secret())
        self._servers[loan] = server
        return loan

    def taken_back(self, loan: Loan, code: int | None = None) -> None:
        """Behind a borrower's end: its streams are stopped, the way is closed, and unless somebody
        else has a loan, what was cached and what still runs of a job goes, too.

        ``code``: how it ended, if it is known. Raises ``AssertionError`` where it ended well and
        had not stopped its streams: with a JVM of its own, that would have ended them unasked.
        """
        server = self._servers.pop(loan, None)
        if server is None:
            return
        state: Any = self._spark._jsparkSession.sharedState()
        active = state.activeStreamingQueries()
        left: dict[str, str] = {}

        def none() -> bool:
            its = [query for id_ in list(active) if _is_of(query := active.get(id_), loan)]
            for query in its:
                left[str(query.id())] = str(query.name())
                query.stop()
            return not its

        wait_until(none, "the streams of a borrower to end")
        server.shutdown()
        if not self._servers:
            self._spark.sparkContext.cancelAllJobs()
            self._spark.catalog.clearCache()
        assert code != 0 or not left, f"a command ended well and left streams: {[*left.values()]}"


def _is_of(query: Any, loan: Loan) -> bool:
    if query is None:  # it has ended since
        return False
    return bool(query.sparkSession().conf().get(TAG, "") == str(loan.port))


def borrow_as_told() -> None:
    """In a command's process: what it opens as Spark is in the JVM that it was lent, if any."""
    if (told := os.environ.pop(_VARIABLE, None)) is None:
        return
    from jobs.spark import session

    loan = Loan(*json.loads(told))

    def opened(_master: str, settings: Mapping[str, str], *_more: Any, **_named: Any) -> Any:
        spark = attached(loan)
        for key, value in settings.items():
            if spark.conf.isModifiable(key):  # else it is of Java
                spark.conf.set(key, value)
        return spark

    session.open_session = cast(Any, opened)


def attached(loan: Loan) -> SparkSession:
    """A session of its own in the JVM that is lent; to stop it stops nothing."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from jobs.spark.java_names import remember
    from jobs.spark.text_udf import register

    remember()  # as in a process that starts its own
    before = os.environ.copy()
    os.environ["PYSPARK_GATEWAY_PORT"] = str(loan.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = loan.secret
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    os.environ.clear()
    os.environ.update(before, PYSPARK_PYTHON=sys.executable)
    jvm = gateway.jvm
    context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
    sessions: Any = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    default = sessions.getDefaultSession().get()
    fresh = SparkSession.newSession

    def tagged(session: SparkSession) -> SparkSession:
        made = fresh(session)
        made.conf.set(TAG, str(loan.port))
        return made

    SparkSession.newSession = tagged  # type: ignore[assignment,method-assign]
    spark = SparkSession(
        SparkContext(conf=conf, gateway=gateway, jsc=context), default.newSession()
    )
    sessions.setDefaultSession(default)
    spark.conf.set(TAG, str(loan.port))
    spark.stop = lambda: None  # type: ignore[method-assign]
    register(spark)
    return spark
