"""What a batch's records are to the keys that are parked: whose each is, and behind which of them a
parked key's row is removed. Records as ``dead_letters.parking`` collects them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Row

from cdc.events.codes import DELETE, TRUNCATE
from cdc.lsn import Position
from jobs.without_mirrors.dead_letters.letter import Owner, fate


def id_of(row: Row) -> str:
    """As letters and ``jobs.without_mirrors.dead_letters.parked_records.record_id`` have it."""
    return f"{row.topic}-{row.partition}-{row.offset}"


def owner_of(row: Row) -> Owner | None:
    """None of a record without a key, as a TRUNCATE is."""
    return None if row.key is None else Owner(row.topic, bytes(row.key))


def fate_of(row: Row) -> tuple[str, Position | None]:
    """What its event does, and where it stands; nothing and nowhere if it is none."""
    return fate(bytes(row.value))


def by_owner(rows: Iterable[Row]) -> tuple[dict[Owner, list[Row]], dict[str, list[Position]]]:
    """Each key's records, and the TRUNCATEs of each topic."""
    found: dict[Owner, list[Row]] = {}
    truncates: dict[str, list[Position]] = {}
    for row in rows:
        if (owner := owner_of(row)) is not None:
            found.setdefault(owner, []).append(row)
            continue
        op, at = fate_of(row)
        if op == TRUNCATE and at:
            truncates.setdefault(row.topic, []).append(at)
    return found, truncates


def before_end(
    parked: Sequence[Position | None], rows: Sequence[Row], truncates: Sequence[Position]
) -> list[Row] | None:
    """Those of a parked key's events in a batch that its row is removed behind: all that is
    ``parked`` of it is of before, and so is what needs a value of that. None: it is not removed.

    What is no event has no position. A later delete of its key removes the row as well; of a
    TRUNCATE, which stands in every partition, nobody knows whether it is later.
    """
    newest = max((position for position in parked if position is not None), default=Position(0, 0))
    fates = [fate_of(row) for row in rows]
    for number, (op, position) in enumerate(fates):
        if op == DELETE and position and position > newest:
            return list(rows[:number])
    truncated = max(truncates, default=newest)
    if None in parked or truncated <= newest:
        return None
    told = zip(rows, fates, strict=True)
    return [row for row, (_, position) in told if position and position < truncated]
