"""What a borrower of the run's JVM may leave there, and what not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.servers.lent_jvm import TAG, Lender, Loan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Streaming = Callable[[Loan], "StreamingQuery"]


@pytest.fixture
def streaming(spark: SparkSession, tmp_path: Path) -> Streaming:
    """Starts the stream ``left`` in a session of a borrower."""

    def started(loan: Loan) -> StreamingQuery:
        session = spark.newSession()
        session.conf.set(TAG, str(loan.port))
        rows = session.readStream.format("rate").load()
        writer = rows.writeStream.format("noop").queryName("left")
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    return started


def test_a_stream_that_a_command_leaves_though_it_ended_well_is_a_fault(
    spark: SparkSession, streaming: Streaming
) -> None:
    lender = Lender(spark)
    loan, other = lender.lend(), lender.lend()
    query = streaming(loan)
    lender.taken_back(other, 0)
    assert query.isActive, "it was another borrower's"
    with pytest.raises(AssertionError, match=r"ended well and left streams: \['left'\]"):
        lender.taken_back(loan, 0)
    assert not query.isActive


@pytest.mark.parametrize("code", [None, 1, -9])
def test_one_that_was_killed_or_failed_may_leave_what_is_stopped_for_it(
    spark: SparkSession, streaming: Streaming, code: int | None
) -> None:
    lender = Lender(spark)
    loan = lender.lend()
    query = streaming(loan)
    lender.taken_back(loan, code)
    assert not query.isActive
