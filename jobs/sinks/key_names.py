"""What stores call a row, from the values of its key: ``documents.key_text`` without Spark.

Only of values whose text is the same to Python and to Spark: integers, booleans and texts. Rows
with other keys are looked for among all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import orjson
from pyspark.sql.types import BooleanType, IntegralType, StringType, StructType

from jobs.sinks.contract import ViewRow

Keys = Collection[tuple[object, ...]]
"""Of rows, each value as ``ViewRow.key`` has it."""
PLAIN: Final = (BooleanType, IntegralType, StringType)


def are_plain(columns: StructType, key: Sequence[str]) -> bool:
    """Whether rows with such a key can be asked for."""
    return all(isinstance(columns[name].dataType, PLAIN) for name in key)


def plain_key(
    columns: StructType, key: Sequence[str], texts: Mapping[str, str]
) -> tuple[object, ...] | None:
    """The values of a plain key from PostgreSQL's text of each; None of another."""
    if not are_plain(columns, key):
        return None
    kinds = ((columns[name].dataType, texts[name]) for name in key)
    return tuple(
        int(text)
        if isinstance(kind, IntegralType)
        else text == "t"
        if isinstance(kind, BooleanType)
        else text
        for kind, text in kinds
    )


def key_name(values: Sequence[object]) -> str:
    """The text of a plain key."""
    if len(values) > 1:
        return orjson.dumps(list(values)).decode()
    (value,) = values
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def among(rows: Iterable[ViewRow], keys: Keys | None) -> Iterator[ViewRow]:
    """Those of some keys, all if there are none to choose by."""
    wanted = None if keys is None else set(keys)
    return (row for row in rows if wanted is None or row.key in wanted)
