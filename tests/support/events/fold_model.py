"""What a batch is folded to, said once more and in the plainest way: the tests' reference."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from cdc.kafka.partition_reader import FetchedRecord

Row = dict[str, Any]


def fetched(
    records: Iterable[tuple[bytes | None, bytes | None]], topic: str
) -> list[FetchedRecord]:
    """Records as they stand in partition 0 of a topic."""
    return [FetchedRecord(topic, 0, at, key, value) for at, (key, value) in enumerate(records)]


def model(records: Iterable[FetchedRecord]) -> list[Row]:
    """Rows with ``topic, offset, key, op, position, after, before, unchanged, read_lsn, records,
    oldest_us``, images as values."""
    groups: defaultdict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    foreign = []
    records = list(records)
    periods = _periods(records)
    for record in records:
        if record.value is None:
            continue
        event = _event(record.value)
        if event is None:
            foreign.append(_foreign(record))
            continue
        source = event["source"]
        alone = (record.partition, record.offset) if record.key is None else None
        period = periods[_place(record.topic, source)]
        group = (record.topic, record.key, period, alone)
        if event["op"] == "t":
            group = (record.topic, None, period, None)
        position = (source["commit_lsn"], source["ordinal"])
        groups[group].append((position, record.offset, event, record))
    return [_folded(sorted(found, key=lambda one: one[:2])) for found in groups.values()] + foreign


def _periods(records: Iterable[FetchedRecord]) -> dict[tuple[Any, ...], int]:
    """A number for each place of a record: another one wherever the table's version changes."""
    events = ((one.topic, _event(one.value)) for one in records if one.value is not None)
    places = sorted({_place(topic, event["source"]) for topic, event in events if event})
    found, number = dict[tuple[Any, ...], int](), 0
    for before, place in zip([None, *places], places, strict=False):
        number += before is None or (before[0], before[3]) != (place[0], place[3])
        found[place] = number
    return found


def _place(topic: str, source: dict[str, Any]) -> tuple[Any, ...]:
    return topic, source["commit_lsn"], source["ordinal"], source["schema_id"]


def _event(value: bytes) -> dict[str, Any] | None:
    try:
        event: Any = json.loads(value)
        source = event["source"]
        known = [event["op"], source["commit_lsn"], source["ordinal"], source["schema_id"]]
    except (ValueError, KeyError, TypeError):
        return None
    return None if None in known else event


def _foreign(record: FetchedRecord) -> Row:
    return {"topic": record.topic, "offset": record.offset, "op": None, "records": 1}


def _folded(found: list[tuple[Any, ...]]) -> Row:
    row: dict[str, Any] = {}
    lacking: list[str] = []
    read: dict[str, int] = {}
    for (lsn, _), _, event, _ in found:
        after, known = event["after"], row
        unchanged = event["source"].get("unchanged") or []
        if after is None:
            row, lacking, read = {}, [], {}
            continue
        was_read = {} if event["op"] != "r" else dict.fromkeys(after, lsn)
        read = was_read | {name: read[name] for name in unchanged if name in read}
        row = dict(after)
        still = []
        for name in unchanged:
            if name in known and name not in lacking:
                row[name] = known[name]
            else:
                still.append(name)
        lacking = still
    position, offset, event, record = found[-1]
    streamed = [
        one["source"].get("ts_us") for _, _, one, _ in found
        if one["op"] != "r" and one["source"].get("ts_us") is not None
    ]  # fmt: skip
    return {
        "topic": record.topic,
        "offset": offset,
        "key": None if record.key is None else record.key.decode(),
        "op": event["op"],
        "position": position,
        "before": event["before"],
        "after": None if event["after"] is None else row,
        "unchanged": [name for name in unchanged if name in lacking or name in read],
        "read_lsn": max((read[name] for name in unchanged if name in read), default=None),
        "records": len(found),
        "oldest_us": min(streamed, default=None),
    }


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Rows of ``jobs.batch.folded_rows.SCHEMA`` as ``model`` has them."""
    found = []
    for row in rows:
        if row["op"] is None:
            found.append({name: row[name] for name in ("topic", "offset", "op", "records")})
            continue
        found.append(
            {
                **{name: row[name] for name in ("topic", "offset", "key", "op", "records")},
                "oldest_us": row["oldest_us"],
                "position": (row["commit_lsn"], row["ordinal"]),
                "before": _value(row["before"]),
                "after": _value(row["after"]),
                "unchanged": row["unchanged"] or [],
                "read_lsn": row["read_lsn"],
            }
        )
    return found


def _value(image: str | None) -> Any:
    return None if image is None else json.loads(image)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sorted by the records that rows are of."""
    return sorted(rows, key=lambda row: (row["topic"], row["offset"]))
