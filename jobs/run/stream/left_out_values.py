"""Values that a change of a history leaves out, where the change before it is of another table
version, in which their columns may have other names. Pure.

Within a version they are put in where changes are read (``jobs.batch.history_changes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from jobs.batch.images import Image, filled, read_row, renamed
from jobs.state.batch.staging import Mirror, Record


def with_earlier_values(
    records: Iterable[Record], mirrors: Mapping[str, Mirror]
) -> Iterator[Record]:
    """Every change of some keys, in the order of positions: each with what the one before it of its
    key has of the values that it leaves out. A delete or a TRUNCATE in between has none."""
    before: dict[str, dict[str | None, Record]] = {}
    for record in records:
        of_table = before.setdefault(record.table, {})
        if record.op == TRUNCATE:
            of_table.clear()
        last, mirror = of_table.get(record.key), mirrors.get(record.table)
        if record.unchanged and last is not None and mirror is not None:
            record = _with_values(record, last, mirror)
        if record.key is not None:
            of_table[record.key] = record
        yield record


def _with_values(record: Record, last: Record, mirror: Mirror) -> Record:
    was, now = (mirror.shapes.get(one.schema_id) for one in (last, record))
    if was is None or now is None or last.op == DELETE or last.image is None:
        return record
    names = {old: new for old, new in zip(was, now, strict=True) if old and new}
    if last.op == SNAPSHOT:
        earlier = renamed(read_row(last.image, last.commit_lsn), names)
    else:
        earlier = renamed(Image(last.image, last.unchanged, last.read_lsn), names)
    image = filled(Image(record.image, record.unchanged), [earlier])
    return record._replace(image=image.after, unchanged=image.unchanged, read_lsn=image.read_lsn)
