"""Did capture ever say more than was in Kafka, to PostgreSQL or in ``__progress``? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cdc.lsn import format_lsn
from tests.chaos.checks.log import PUT_BACK, Log, Partition, Record, Told

Findings = Iterator[str]


def confirmed(log: Log) -> Findings:
    """What the slot said to be confirmed was in Kafka at that moment, and it never goes back while
    the server runs; a crash takes the slot back to its last checkpoint."""
    lowest = _lowest(log)
    for before, sample in pairwise(log.samples):
        if sample.era == before.era and sample.confirmed < before.confirmed:
            yield f"the slot's confirmed LSN goes back to {format_lsn(sample.confirmed)}"
    for sample in log.samples:
        for place, end in sample.ends.items():
            after = lowest.get(place, {}).get(end)
            if after is not None and after < sample.confirmed:
                yield (
                    f"{place[0]}[{place[1]}] ended at {end} when {format_lsn(sample.confirmed)} "
                    f"was confirmed, and {format_lsn(after)} was not in it"
                )


def marks(log: Log) -> Findings:
    """A mark's transactions stand below its offsets; marks do not go back."""
    lowest = _lowest(log)
    last_lsn, last = 0, dict[Partition, int]()
    for mark in log.marks:
        ends = {
            (topic, int(partition)): offset
            for topic, partitions in mark["offsets"].items()
            for partition, offset in partitions.items()
        }
        at = format_lsn(mark["lsn"])
        if mark["lsn"] < last_lsn:
            yield f"a mark goes back to {at}"
        for place, end in ends.items():
            after = lowest.get(place, {}).get(end)
            if after is not None and after <= mark["lsn"]:
                yield f"the mark at {at} leaves {format_lsn(after)} out of {place[0]}[{place[1]}]"
            if end < last.get(place, 0):
                yield f"the mark at {at} goes back in {place[0]}[{place[1]}] to {end}"
        last_lsn, last = mark["lsn"], {**last, **ends}


def _lowest(log: Log) -> dict[Partition, dict[int, int]]:
    rows = {place: _lowest_after(records) for place, records in log.events.items()}
    return rows | {place: _lowest_after(records) for place, records in log.told.items()}


def _lowest_after(records: Sequence[Record | Told]) -> dict[int, int]:
    """By offset, the lowest commit LSN of a streamed event at it or behind it."""
    lowest: dict[int, int] = {}
    least: int | None = None
    for record in reversed(records):
        if record.offset == PUT_BACK:
            continue
        if record.streamed:
            lsn = record.position.commit_lsn
            least = lsn if least is None else min(lsn, least)
        if least is not None:
            lowest[record.offset] = least
    return lowest
