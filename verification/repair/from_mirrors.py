"""Setting right the rows of a view over mirrors that differ, and no others.

Such a row is made of several rows of the tables, which the mirrors hold as they were applied. So it
is made anew of them, as it is when one of those rows changes. The mirrors are the newest state that
was applied, at the LSN of the comparison or behind it: what was changed since counts as newer, and
is looked at again, as all that was repaired is.

A row that differs once more is beyond this. The mirrors are not what the tables are then, or a
table's row waits among the dead letters.

Which changes touched a row of such a view is not told by their keys. While any come, a row that the
view lacks is so undecided: deleted since, or missing. Made anew of the mirrors it is right either
way, and it counts as neither until a later comparison has decided it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Protocol

from cdc.kafka.broker import Offsets
from jobs.without_mirrors.replay.repair import writable
from verification.comparison import Row
from verification.repair.rows import PART_ROWS
from verification.source_rows import SourceSnapshot, is_endless
from verification.values.canonical_form import Canonical, unpacked
from views.spark.view import MaintainedView
from views.types import FLOATS, PgType


class Makeable(Protocol):
    """A view over mirrors: ``jobs.delta_engine.live_view.LiveMirrors``."""

    def make_anew(self, lsn: int, keys: Sequence[Mapping[str, object]]) -> None:
        """Make the rows of some keys what the mirrors say, at ``lsn``."""


class RepairFromMirrors:
    """A ``Repair``; ``live`` is asked when there is need. Each key that differs is made
    anew once."""

    def __init__(self, view: MaintainedView, live: Callable[[], Makeable]) -> None:
        self._view, self._live = view, live
        by_name = {output.name: output.type for output in view.outputs}
        self._kinds = [by_name[name] for name in view.key]
        self._made: set[bytes] = set()

    def write(
        self,
        source: SourceSnapshot,
        present: Collection[bytes],
        extra: Mapping[bytes, tuple[object, ...]],
        undecided: Collection[bytes],
        before: Offsets,  # noqa: ARG002
    ) -> set[bytes]:
        beyond = self._made & {*present, *extra}
        self._made |= {*present, *extra}
        fresh = sorted({*present, *undecided} - beyond)
        keys = self._writable(self._keys(source, fresh, extra, beyond))
        while some := list(islice(keys, PART_ROWS)):
            self._live().make_anew(source.lsn, some)
        return beyond

    def _keys(
        self,
        source: SourceSnapshot,
        present: Sequence[bytes],
        extra: Mapping[bytes, tuple[object, ...]],
        beyond: set[bytes],
    ) -> Iterator[Sequence[object]]:
        """As the mirrors have them; and as the store has them, where it alone has them."""
        yield from (self._values(row) for row in source.rows_of(present))
        yield from (stored for key, stored in extra.items() if key not in beyond)

    def _writable(self, keys: Iterator[Sequence[object]]) -> Iterator[dict[str, object]]:
        named = (dict(zip(self._view.key, key, strict=True)) for key in keys)
        return (key for key in named if writable(self._view, key))

    def _values(self, row: Row) -> list[object]:
        digits = iter(row.digits)
        pairs = zip(self._kinds, unpacked(row.key), strict=True)
        return [next(digits) if is_endless(kind) else at_hand(kind, one) for kind, one in pairs]


def at_hand(kind: PgType, value: Canonical) -> object:
    """A canonical value as ``Sink.scan`` gives it; a time that Python has no value for stays text.

    Not for numerics without limits, of which the canonical form has lost digits.
    """
    try:
        match kind.name:
            case "date":
                return date.fromisoformat(value)
            case "timestamp":
                return datetime.fromisoformat(value)
            case "timestamptz":
                return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except ValueError:
        return value
    if kind.name == "numeric":
        return Decimal(value)
    return float(value) if kind.name in FLOATS else value
