"""The session's tables of images: the rows of a mirror that a batch changes, as they were and as
they are."""

from __future__ import annotations

from typing import Final

from jobs.state.mirrors.table import LSN, ORDINAL, MirrorTable
from jobs.state.server.connection import Connection, translated

_FEW: Final = 3
"""So many images on a page, as the planner is to expect them."""
_LOOKED_AT: Final = 100
_SMALL_BYTES: Final = 1_000
"""A row with larger values is not copied for that: only their stored sizes are looked at."""


def image_tables(mirror_id: int) -> tuple[str, str]:
    """Those of old and new images, as SQL."""
    return f"pg_temp.old_{mirror_id}", f"pg_temp.new_{mirror_id}"


def prepare_images(conn: Connection, table: MirrorTable, mirror_id: int) -> None:
    """Make those of a mirror anew, with exactly its columns: before its first batch, and again when
    it has other columns. In a transaction or outside of one."""
    with translated(f"making the images of {table.label}"):
        for name in image_tables(mirror_id):
            conn.execute(f"drop table if exists {name}".encode())
            made = f"create temporary table {name.removeprefix('pg_temp.')}"
            conn.execute(f"{made} (like {table.relation} including generated)".encode())
        expect_few_images(conn, table, mirror_id)


def expect_few_images(conn: Connection, table: MirrorTable, mirror_id: int) -> None:
    """Have statements over its tables, which are empty, planned for few images. Of a table that was
    never analyzed the planner expects ten full pages: then it reads a whole mirror for one image
    instead of looking into an index."""
    shown = [column.quoted for column in table.columns if not column.generated]
    columns = ", ".join([*shown, LSN, ORDINAL])
    size = " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in shown)
    rows = (
        f"select {columns} from (select * from {table.relation} limit {_LOOKED_AT}) r "
        f"where {size} < {_SMALL_BYTES} limit {_FEW}"
    )
    for name in image_tables(mirror_id):
        conn.execute(f"insert into {name} ({columns}) {rows}".encode())
        conn.execute(f"analyze {name}".encode())
        conn.execute(f"delete from {name}".encode())
