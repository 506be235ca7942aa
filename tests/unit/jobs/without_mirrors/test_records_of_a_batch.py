"""Rows of a folded batch as records of mirrored tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from jobs.batch.folded_rows import SCHEMA
from jobs.state.batch.staging import records_of


def row(topic: str, offset: int) -> dict[str, Any]:
    empty = dict.fromkeys(SCHEMA.names)
    return {
        **empty,
        **{"topic": topic, "partition": 0, "offset": offset, "key": "{}", "op": "c"},
        **{"commit_lsn": 9, "ordinal": 1, "schema_id": "s", "after": "{}", "unchanged": []},
    }


def test_rows_of_a_topic_whose_mirror_has_just_become_stale_are_left_out() -> None:
    rows = [row("shop.public.a", 1), row("shop.public.b", 7), row("shop.public.a", 2)]
    (batch,) = pa.Table.from_pylist(rows, schema=SCHEMA).to_batches()
    found = list(records_of(batch, {"shop.public.a": "public.a"}))
    assert [(one.table, one.record, cause) for one, cause in found] == [
        ("public.a", "shop.public.a-0-1", None),
        ("public.a", "shop.public.a-0-2", None),
    ]
