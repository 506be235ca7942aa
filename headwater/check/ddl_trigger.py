"""The event trigger that tells of DDL: is it this version's, and may capture know its messages?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc.source.errors import translated
from cdc.source.postgres import identifier
from headwater.check.finding import Finding, by_sql
from headwater.check.source import Source

CHECK: Final = "DDL events"
_TRIGGER: Final = """
select f.nspname, coalesce(pg_catalog.has_schema_privilege(s.oid, 'USAGE')
                           and pg_catalog.has_table_privilege(c.oid, 'SELECT'), false)
from pg_catalog.pg_event_trigger e
join pg_catalog.pg_proc p on p.oid = e.evtfoid
join pg_catalog.pg_namespace f on f.oid = p.pronamespace
left join pg_catalog.pg_namespace s on s.nspname = 'headwater_ddl'
left join pg_catalog.pg_class c on c.relnamespace = s.oid and c.relname = 'secret'
where e.evtname = 'headwater_ddl'
"""


def ddl_events(source: Source) -> Iterator[Finding]:
    """Nothing where there is no trigger."""
    with translated("looking for the DDL trigger"):
        row = source.conn.execute(_TRIGGER).fetchone()
    if row is None:
        return
    schema, readable = row
    if schema == "headwater":
        message = (
            "the DDL trigger is of an earlier version: its messages carry no secret and go to "
        )
        message += f"{source.config.source.name}.message, and its functions run with a superuser's "
        message += "rights in a schema that is not a superuser's"
        hint = "run `headwater init --ddl-events` as a superuser"
        yield Finding("error", CHECK, message, hint)
    elif not readable:
        role = source.conn.info.user
        message = f"role {role} may not read headwater_ddl.secret: no message of the DDL trigger "
        message += "is known to be one"
        usage = f"GRANT USAGE ON SCHEMA headwater_ddl TO {identifier(role)}"
        select = f"GRANT SELECT ON headwater_ddl.secret TO {identifier(role)}"
        yield by_sql("error", CHECK, message, usage, select)
