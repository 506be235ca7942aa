"""The tables of the source that mirrors are of: whether they are captured, and still the same ones.

No event tells that a table was renamed, moved into another schema, dropped, or that another one
has its name: events of the old name end, and that is all. So the catalog is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from cdc.config import Source
from cdc.errors import SourceError, ViewError
from cdc.source.catalog import chosen_tables, table_name
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.publication import read_publication, unpublished
from jobs.state.mirrors.mirror_record import MirrorRecord
from jobs.state.mirrors.table_changes import Refill

_NAMES: Final = """
select c.oid::bigint, n.nspname || '.' || c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = any(%(oids)s::oid[]) or n.nspname || '.' || c.relname = any(%(labels)s)
"""


def table_oids(session: Connection, source: Source, labels: Collection[str]) -> dict[str, int]:
    """The OIDs of those that are captured, by ``schema.table``. Raises ``SourceError`` for one that
    cannot be captured, or whose changes are not published; a fault of others is not theirs."""
    chosen, problems = chosen_tables(session, source)
    found = [one for one in chosen if one.label in labels]
    names = [re.compile(rf"(?<![\w.]){re.escape(one.label)}(?![\w.])") for one in found]
    if of_theirs := [one for one in problems if any(name.search(one) for name in names)]:
        raise SourceError("\n".join(of_theirs))
    publication = read_publication(session, source.publication_name)
    if absent := [one.label for one in unpublished(publication, found)]:
        raise SourceError(
            f"{', '.join(absent)}: not in publication {source.publication_name}, so its changes "
            "are not captured",
            f"run `headwater table add {' '.join(absent)}`",
        )
    return {one.label: one.oid for one in found}


def gone(session: Connection, record: MirrorRecord) -> ViewError:
    """Why a table that was mirrored is not captured under its name."""
    label = record.table.label
    now = table_name(session, record.table.oid)
    if now == label:
        return ViewError(
            f"{label} is no longer captured",
            f"add it to source.tables, then run `headwater table add {label}`",
        )
    if now:
        return ViewError(
            f"{label} was renamed to {now} in the source",
            f"write {now} in the SQL of the view, `headwater table add {now}` if it is not "
            "captured by that name, and `headwater view rebuild`; or rename it back",
        )
    return ViewError(
        f"{label} no longer exists in the source",
        "remove it from the view's SQL and run `headwater view rebuild`, or recreate the table "
        f"and run `headwater table add {label}`",
    )


def moved(session: Connection, records: Iterable[MirrorRecord]) -> dict[str, Refill]:
    """Those of mirrored tables that are not what has their name now, by ``schema.table``."""
    oids = {one.table.label: one.table.oid for one in records}
    with translated("looking for the tables of mirrors"):
        rows = session.execute(_NAMES, {"oids": list(oids.values()), "labels": list(oids)})
        names = dict(rows.fetchall())
    taken = {name: oid for oid, name in names.items()}
    found = {}
    for label, oid in oids.items():
        now = names.get(oid)
        if now == label:
            continue
        reason = f"the table is called {now} now" if now else "the table was dropped"
        if label in taken:
            reason += ", and another one has its name"
        found[label] = Refill(reason)
    return found
