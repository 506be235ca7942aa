"""How a micro-batch reaches a document store: from the driver or from the executors.

Up to ``FEW_ROWS`` rows the driver writes: no Python worker has to start and one connection
does. Above it every partition is written where it is. Both are safe to repeat, so a failed
task or batch is simply run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    wait_random_exponential,
)

from cdc.errors import FatalError, HeadwaterError, RetryableError, SinkError, ViewError
from cdc.log_events import LogEvent
from cdc.lsn import Position
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.documents import Document, document_list
from jobs.sinks.row_errors import (
    RowsError,
    RowsRefusedError,
    RowsUnfitError,
    packed_rows,
    raise_together,
    unkeyed,
    unpacked_rows,
)

Writer = Callable[[list[Document]], None]
"""Writes documents, in one process; must be picklable and bring its own connection. Raises a
``RowsError`` when it has written all but some."""

_T = TypeVar("_T")
_QUIET_S: Final = 1.0
_FAULTS: dict[str, type[HeadwaterError]] = {
    error.__name__: error for error in (SinkError, ViewError, FatalError, RetryableError)
}
_OF_ROWS: dict[str, type[RowsError]] = {
    error.__name__: error for error in (RowsRefusedError, RowsUnfitError)
}
_OUTCOME_FIELDS = ("fault", "message", "hint", "rows", "cause")
_OUTCOME = pa.schema([(name, pa.string()) for name in _OUTCOME_FIELDS])
_OUTCOME_DDL = ", ".join(f"{name} string" for name in _OUTCOME_FIELDS)


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """``rows`` evaluated at most once, and the same however often they are read."""
    if rows.is_cached:
        yield rows
        return
    held = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield held
    finally:
        held.unpersist()


def held_bytes(rows: DataFrame) -> int:
    """What Spark says that rows take which it holds; of others more than anybody has."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    return int(plan.stats().sizeInBytes())


def write_documents(rows: DataFrame, at_most: int, write: Writer) -> None:
    """Give every row of ``Documents`` to ``write``; raises what it raises."""
    write_rows(rows, at_most, document_list, write)


def write_rows(
    rows: DataFrame,
    at_most: int,
    decode: Callable[[Any], list[_T]],
    write: Callable[[list[_T]], None],
) -> None:
    """Give every row to ``write``, as ``decode`` makes them of an Arrow table or record batch.

    Raises what ``write`` raises: a ``RowsError`` when all other rows have been written.
    """
    if at_most <= FEW_ROWS:
        write(decode(rows.toArrow()))
        return
    of_rows: list[RowsError] = []
    for outcome in rows.mapInArrow(_partition(decode, write), _OUTCOME_DDL).collect():
        kind = _OF_ROWS.get(outcome.fault)
        if kind is None:
            fault = _FAULTS.get(outcome.fault, FatalError)(outcome.message, outcome.hint)
            cause = _FAULTS.get(outcome.cause)
            raise fault from (cause(outcome.message) if cause else None)
        of_rows.append(kind(outcome.message, outcome.hint, unpacked_rows(outcome.rows)))
    raise_together(of_rows)


def _partition(
    decode: Callable[[Any], list[_T]], write: Callable[[list[_T]], None]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A partition's writer. Faults come back as rows: raised, Spark would bury them in its own."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_rows: list[RowsError] = []
        try:
            for batch in batches:
                try:
                    write(decode(batch))
                except (RowsRefusedError, RowsUnfitError) as error:
                    of_rows.append(error)
            raise_together(of_rows)
        except HeadwaterError as error:
            fault = {"fault": _kind(error), "message": error.message, "hint": error.hint}
            fault["rows"] = packed_rows(getattr(error, "rows", ()))
            fault["cause"] = _kind(error.__cause__)
            yield pa.RecordBatch.from_pylist([fault], schema=_OUTCOME)

    return run


def _kind(error: BaseException | None) -> str:
    """The name of its class, or of the nearest that the driver knows: what passes has to pass, also
    where it was waited for in vain."""
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((name for name in names if name in _OF_ROWS or name in _FAULTS), "")


class Identified(Protocol):
    """What is written: a row with its key as text, null where that is, and its position."""

    @property
    def id(self) -> str: ...

    @property
    def position(self) -> Position: ...


_Row = TypeVar("_Row", bound=Identified)


def with_keys(view: str, rows: Sequence[_Row], errors: list[RowsError]) -> Sequence[_Row]:
    """``rows`` without those that nothing identifies: ``errors`` tells of them."""
    lacking = [row.position for row in rows if row.id is None]
    if not lacking:
        return rows
    errors.append(unkeyed(view, lacking))
    return [row for row in rows if row.id is not None]


def until(retry_s: float, attempt: Callable[[], _T]) -> _T:
    """Call ``attempt`` until it raises no ``RetryableError`` or ``retry_s`` have passed. Where the
    process keeps a log, which tasks do not, it tells when that takes longer than ``_QUIET_S``."""
    began = time.monotonic()
    try:
        return attempt()  # as a rule that is all: to make what tries again takes as long
    except RetryableError as error:
        return _again(retry_s, began, attempt, error)


def _again(retry_s: float, began: float, attempt: Callable[[], _T], error: RetryableError) -> _T:
    """What is to be done after a first try, begun at ``began``, that has failed with ``error``."""
    first, told = True, False

    def tried() -> _T:
        nonlocal first
        if first:
            first = False
            raise error
        return attempt()

    def tell(state: RetryCallState) -> None:
        nonlocal told
        if told or time.monotonic() - began <= _QUIET_S or state.outcome is None:
            return
        import structlog  # here: a task that need not wait starts without it

        told = True
        if structlog.is_configured():
            cause = str(state.outcome.exception())
            structlog.get_logger("apply").warning(
                LogEvent.STORE_WAITED_FOR, cause=cause, retry_s=retry_s
            )

    policy = Retrying(
        retry=retry_if_exception_type(RetryableError),
        stop=lambda _: time.monotonic() - began >= retry_s,
        wait=wait_random_exponential(multiplier=0.05, max=2),
        before_sleep=tell,
        reraise=True,
    )
    return policy(tried)
