"""Faults on their way from executors to the driver, and what a Redis means by a word."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from redis.exceptions import MasterDownError, ResponseError

from cdc.errors import FatalError, HeadwaterError, RetryableError, SinkError
from jobs.sinks.batch_writer import write_rows
from jobs.sinks.opensearch import client as cluster
from jobs.sinks.postgres import errors as database_faults
from jobs.sinks.redis import errors as keyspace_faults
from jobs.sinks.redis.errors import RefusingError, translated

SINKS = (cluster, database_faults, keyspace_faults)
FAULTS: set[type[HeadwaterError]] = {
    fault
    for module in SINKS
    for fault in vars(module).values()
    if isinstance(fault, type) and issubclass(fault, HeadwaterError)
} - {HeadwaterError}


class Executors:
    """Runs a partition's writer where it is, as a ``DataFrame`` is asked to."""

    def mapInArrow(self, run: Any, _ddl: str) -> Executors:  # noqa: N802
        batch = pa.RecordBatch.from_pylist([{"n": 1}])
        self._rows = [row for out in run([batch]) for row in out.to_pylist()]
        return self

    def collect(self) -> list[Any]:
        return [type("Row", (), row) for row in self._rows]


@pytest.mark.parametrize("fault", sorted(FAULTS, key=str))
def test_what_passes_on_an_executor_passes_on_the_driver(fault: type[HeadwaterError]) -> None:
    def write(_rows: list[Any]) -> None:
        raise fault("busy", "wait")

    kind = RetryableError if issubclass(fault, RetryableError) else FatalError
    with pytest.raises(kind, match=r"busy\. Wait\."):
        write_rows(Executors(), 1_000_000, list, write)  # type: ignore[arg-type]


def test_what_was_waited_for_in_vain_may_still_pass() -> None:
    """So it is no reason, on either side, that keeps the view from being started again."""

    def write(_rows: list[Any]) -> None:
        raise SinkError("full", "make room") from RefusingError("full")

    with pytest.raises(SinkError, match=r"full\. Make room\.") as raised:
        write_rows(Executors(), 1_000_000, list, write)  # type: ignore[arg-type]
    assert isinstance(raised.value.__cause__, RetryableError)


def test_a_replica_without_its_primary_is_waited_for() -> None:
    away = pytest.raises(RefusingError, match=r"MASTERDOWN\. Find out why")
    with away, translated("h:1", cluster=False):
        raise MasterDownError("Link with MASTER is down and replica-serve-stale-data is set")


def test_an_unknown_command_is_told_of_without_the_row_it_was_for() -> None:
    """Some services rename commands, or take them away."""
    answer = "unknown command 'HSET', with args beginning with: 'shop:7' 'ada@example.com'"
    with (
        pytest.raises(SinkError, match=r"unknown command 'HSET'$") as refused,
        translated("h:1", cluster=False),
    ):
        raise ResponseError(answer)
    assert "ada" not in str(refused.value)
