"""Rows of a view that could not be made of the mirrors, or that the store refused.

No single event is to blame for such a row, and none has to wait: the mirrors have them all. Its key
is parked, which says that the store has an older state of the row. Whatever touches the key makes
the row anew, and so ends that; ``retry`` does it without a change.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import structlog
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from cdc.errors import ViewError
from cdc.log_events import LogEvent
from cdc.lsn import Position
from jobs.sinks.documents import key_text
from jobs.sinks.schema_evolution import quoted
from jobs.without_mirrors.dead_letters.letter import Letter, Letters, row_letter
from jobs.without_mirrors.dead_letters.parking import Box

_NUMBER, _ID, _KEY = "__number", "__id", "__key"
log = structlog.get_logger("apply")


class ParkedRows:
    """Those of one generation. ``letters`` are all of its letters, ``limit`` is of all keys."""

    def __init__(self, view: str, box: Box, limit: int, letters: Letters) -> None:
        self._view, self._box, self.limit, self._letters = view, box, limit, letters
        self.refused: dict[bytes, str] = {}
        """The causes of what was parked since this began, by key."""

    @property
    def any(self) -> bool:
        return bool(self._letters.rows)

    def park(self, causes: Mapping[bytes, str], at: Position) -> None:
        """Durable when it returns. Raises ``ViewError`` when more than the limit are parked."""
        fresh = causes.keys() - self._letters.rows.keys()
        if self._letters.parked + len(fresh) > self.limit:
            raise ViewError(
                f"view {self._view}: more than {self.limit:,} keys would be parked "
                f"(apply.dlq_limit): {next(iter(causes.values()))}",
                f"correct the cause, see `headwater dead-letters list {self._view}`, and retry or"
                " discard what is parked; or raise the limit",
            )
        now_ms = time.time_ns() // 1_000_000
        made = [row_letter(self._view, key, at, now_ms, now_ms, why) for key, why in causes.items()]
        self._box.write(made, self._letters.parked + len(fresh))
        self._letters.add(made)
        self.refused |= causes
        if fresh:
            cause = next(iter(causes.values()))
            line = {"view": self._view, "keys": len(fresh), "cause": cause}
            log.error(LogEvent.ROWS_PARKED, **line, parked=self._letters.parked)

    def free(self, keys: Iterable[bytes]) -> None:
        """The store has these rows as they are now."""
        rows = self._letters.rows
        over = [rows[key].id for key in keys if key in rows]
        if over:
            self._letters.settle(over)
            self._box.settle(over, self._letters.parked)
            log.info(
                LogEvent.ROWS_UNPARKED, view=self._view, keys=len(over), parked=self._letters.parked
            )


class NamedKeys:
    """Keys of a view with what a store calls them and what letters do, in their order."""

    def __init__(
        self, session: SparkSession, keys: pa.Table, columns: StructType, names: Sequence[str]
    ) -> None:
        numbered = keys.append_column(_NUMBER, pa.array(range(len(keys)), pa.int64()))
        held = session.createDataFrame(numbered)
        cast = [F.col(quoted(name)).cast(columns[name].dataType).alias(name) for name in names]
        held = held.select(_NUMBER, *cast)
        texts = F.create_map(
            *(part for name in names for part in (F.lit(name), _text(columns, name)))
        )
        shown = held.select(
            _NUMBER, key_text(columns, tuple(names)).alias(_ID), F.to_json(texts).alias(_KEY)
        )
        rows = sorted(shown.collect())
        self.ids = [row[_ID] for row in rows]
        self.keys = [row[_KEY].encode() for row in rows]


def typed_keys(
    session: SparkSession, letters: Iterable[Letter], columns: StructType, names: Sequence[str]
) -> pa.Table | None:
    """The keys of rows that letters are of; None without any."""
    texts = [orjson.loads(letter.key or b"{}") for letter in letters if letter.is_row]
    if not texts:
        return None
    rows: list[tuple[Any, ...]] = [tuple(text.get(name) for name in names) for text in texts]
    held = session.createDataFrame(rows, ", ".join(f"{quoted(name)} string" for name in names))
    return held.select(*(_typed(columns, name).alias(name) for name in names)).toArrow()


def keys_at_hand(
    session: SparkSession,
    keys: Iterable[Mapping[str, object]],
    columns: StructType,
    names: Sequence[str],
) -> pa.Table:
    """Keys of the view by Python's values, as ``Sink.scan`` gives them."""
    rows = [tuple(key[name] for name in names) for key in keys]
    kinds = StructType([StructField(name, columns[name].dataType) for name in names])
    return session.createDataFrame(rows, kinds).toArrow()


def _text(columns: StructType, name: str) -> Column:
    value = F.col(quoted(name))
    return F.hex(value) if isinstance(columns[name].dataType, BinaryType) else value.cast("string")


def _typed(columns: StructType, name: str) -> Column:
    text, kind = F.col(quoted(name)), columns[name].dataType
    return F.unhex(text) if isinstance(kind, BinaryType) else text.cast(kind)
