"""The topics that ``headwater.emit`` accepts: as the configuration has them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc.preflight.finding import Finding
from cdc.preflight.source import Source
from cdc.source.postgres import translated

_THERE: Final = """
select coalesce(pg_catalog.has_table_privilege(c.oid, 'SELECT'), false)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'headwater' and c.relname = 'emit_topic'
"""
_KNOWN: Final = "select name from headwater.emit_topic where source = %s"


def emit_topics(source: Source) -> Iterator[Finding]:
    """Told once the source is initialised: ``init`` brings both together."""
    if not source.initialised:
        return
    wanted, known = set(source.config.capture.emit_topics), set[str]()
    with translated("reading the topics of headwater.emit"):
        if source.conn.execute(_THERE).fetchone() == (True,):
            rows = source.conn.execute(_KNOWN, (source.config.source.name,))
            known = {name for (name,) in rows}
    if differing := ", ".join(sorted(wanted ^ known)):
        message = f"capture.emit_topics and what headwater.emit accepts differ in {differing}"
        yield Finding("warning", "emit topics", message, "run headwater init")
