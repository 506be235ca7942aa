"""The partitions of rows where a route names columns that choose them: those of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.columnar.copy_text import copied_columns, copied_rows
from cdc.columnar.keys import PartitionKeys
from cdc.columnar.partitions import partitions_for
from cdc.columnar.snapshot import MOST_BYTES
from cdc.events.envelope import SourceContext
from cdc.events.rows import RowEncoder
from cdc.protocol.relation import Relation
from cdc.topics import partition_for


class SnapshotPartitions:
    """Of one table. A block is taken before what it holds is asked for."""

    def __init__(self, relation: Relation, context: SourceContext) -> None:
        self._columns = PartitionKeys(relation, context)
        self._rows = RowEncoder(relation, context.form, context.name)
        self._width = len(relation.columns)
        self._of: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        """Whether the route names any."""
        return bool(self._columns)

    def take(self, copied: bytes, rows: int, keys: Sequence[bytes | None], partitions: int) -> None:
        """Rows as COPY's lines, and their keys, for a topic of so many partitions.

        Raises ``ProtocolError`` for what COPY does not write.
        """
        if len(copied) > MOST_BYTES:
            each = copied_rows(copied, self._width)
            chosen = [partition_for(self._rows.partition_key(row), partitions) for row in each]
        else:
            found = self._columns.of(copied_columns(copied, rows, self._width), rows)
            chosen = partitions_for(found, partitions).tolist()
        self._of = {key: at for key, at in zip(keys, chosen, strict=True) if key is not None}

    def of(self, keys: Sequence[bytes | None]) -> list[int]:
        """Those of rows of the block that was taken last."""
        return [self._of[key] for key in keys if key is not None]
