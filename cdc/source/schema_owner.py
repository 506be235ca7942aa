"""Whose the schema ``headwater`` is: what stands in it runs with the rights of whoever uses it."""

from __future__ import annotations

from typing import Final

from cdc.errors import SourceError
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_OTHER: Final = """
select o.rolname
from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid = n.nspowner
join pg_catalog.pg_roles me on me.rolname = current_user
where n.nspname = 'headwater' and me.rolsuper and not o.rolsuper
"""


def lesser_owner(conn: Connection) -> str:
    """The owner of the schema, if this session is a superuser's and the owner is none; else
    nothing. Such an owner may have put triggers and functions there, which a statement of this
    session would run with the superuser's rights."""
    with translated("looking for the owner of the schema headwater"):
        row = conn.execute(_OTHER).fetchone()
    return "" if row is None else str(row[0])


def refuse_lesser_owner(conn: Connection) -> None:
    """Raises ``SourceError`` where ``lesser_owner`` finds one."""
    if owner := lesser_owner(conn):
        raise SourceError(
            f"the schema headwater belongs to {owner}, but {conn.info.user} is a superuser: its "
            "functions would run with a superuser's rights",
            f"connect as {owner}; only `headwater init --ddl-events` needs a superuser, and "
            "then does nothing else",
        )
