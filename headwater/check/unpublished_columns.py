"""Columns that a view names, and that the publication leaves out: to the view there are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cdc.config import Source
from cdc.errors import HeadwaterError, ViewError
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_COLUMNS: Final = """
select attname, attgenerated <> '' from pg_catalog.pg_attribute
where attrelid = %s::oid and attnum > 0 and not attisdropped
"""
_GENERATED_SINCE: Final = 180000


def explained(
    conn: Connection,
    source: Source,
    error: HeadwaterError,
    tables: Mapping[str, int],
    published: Mapping[str, Iterable[str]],
) -> HeadwaterError:
    """The error, or one that says that the column it is about is not published. ``tables`` are
    those of the view, with their OIDs, ``published`` the columns that it may read of each."""
    for label, oid in tables.items():
        known = set(published[label])
        with translated(f"reading the columns of {label}"):
            rows = conn.execute(_COLUMNS, (oid,)).fetchall()
        for name, generated in rows:
            if name not in known and re.search(rf"\b{re.escape(name)}\b", error.message):
                if name in source.excluded(label):
                    return _excluded(f"{label}.{name}", error)
                publication = source.publication_name
                return _not_published(conn, publication, f"{label}.{name}", generated, error)
    return error


def _excluded(column: str, error: HeadwaterError) -> ViewError:
    return ViewError(
        f"{error.message}: source.columns excludes {column}, which does not leave the source",
        "leave it out of the view",
    )


def _not_published(
    conn: Connection, publication: str, column: str, generated: bool, error: HeadwaterError
) -> ViewError:
    hint = f"add it to the column list of publication {publication}, or leave it out of the view"
    if generated:
        hint = "write what it computes in the view's SQL"
        if conn.info.server_version >= _GENERATED_SINCE:
            hint += (
                f', or ALTER PUBLICATION "{publication}" SET (publish_generated_columns = stored)'
            )
    kind = "generated column" if generated else "column"
    return ViewError(f"{error.message}: the {kind} {column} is not published", hint)
