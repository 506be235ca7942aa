"""The periods of a topic: positions next to each other whose records have one table version. Pure.

``schema_id`` is a hash of a table's columns: one that is added and dropped brings the version back
that there was before. What a key's record leaves out may then be in a record of the version in
between, so that changes of one version are folded within a period, never over several.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc


class Periods:
    """Of one topic, numbered in the order of positions. Add all records before ``number``."""

    def __init__(self) -> None:
        self._lsns, self._ordinals, self._versions = array("q"), array("q"), array("q")
        self._places: dict[str, int] = {}

    def add(self, commit_lsn: int, ordinal: int, schema_id: str) -> None:
        """Where a record stands, and its version."""
        self._lsns.append(commit_lsn)
        self._ordinals.append(ordinal)
        self._versions.append(self._places.setdefault(schema_id, len(self._places)))

    def number(self, commit_lsn: int, ordinal: int, schema_id: str) -> int:
        """The period of a record that was added."""
        return bisect_right(self._begins, (commit_lsn, ordinal, schema_id)) - 1

    @cached_property
    def _begins(self) -> list[tuple[int, int, str]]:
        """The first place of each. Of records at one position those of a version are together."""
        if not self._places:
            return []
        names = sorted(self._places)
        ranks = [names.index(name) for name in self._places]
        columns = [self._lsns, self._ordinals, array("q", (ranks[at] for at in self._versions))]
        places = pa.table([pa.array(one, pa.int64()) for one in columns], _COLUMNS)
        places = places.sort_by([(name, "ascending") for name in _COLUMNS])
        versions = places.column("version").combine_chunks()
        ends = pc.run_end_encode(versions, run_end_type=pa.int64()).run_ends.to_pylist()
        firsts = places.take([0, *ends[:-1]]).to_pylist()
        return [(one["lsn"], one["ordinal"], names[one["version"]]) for one in firsts]


_COLUMNS: Final = ["lsn", "ordinal", "version"]
