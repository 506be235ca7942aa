"""Tables as the state database would mirror them: what of it cannot be computed with, and why.

It is asked where it runs and has been used, and what asking would make is rolled back. Before, only
its extensions are known: those that its programs come with, or the server of apply.state_dsn has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cdc.config import Config
from cdc.errors import RetryableError, StateError
from cdc.source import errors as source_errors
from cdc.source.postgres import Connection
from cdc.source.types import COMMON_DIGITS, money_digits

if TYPE_CHECKING:
    from views.maintain import MirrorTable


_BASE_TYPES: Final = """
select t.typname, e.extname
from pg_catalog.pg_type t
left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_type'::regclass and d.objid = t.oid
    and d.refclassid = 'pg_catalog.pg_extension'::regclass and d.deptype = 'e'
left join pg_catalog.pg_extension e on e.oid = d.refobjid
where t.typtype = 'b' and t.typcategory <> 'A' and t.typnamespace <> 'pg_catalog'::regnamespace
"""
_AVAILABLE: Final = "select name from pg_catalog.pg_available_extensions"


class StateMirrors:
    """Of one source. ``state`` is None where nobody can be asked."""

    def __init__(self, config: Config, source: Connection, state: Connection | None) -> None:
        self._config, self._source, self._state = config.source, source, state
        self._whole = config
        self._found: dict[int, MirrorTable] = {}

    @cached_property
    def lacking(self) -> frozenset[str]:
        """Types of the source, by their names, that it cannot have: they are the source's own, or
        of an extension that is not there, or money of a currency without hundredths."""
        available = _extensions(self._whole)
        with source_errors.translated("reading the base types of the database"):
            rows = self._source.execute(_BASE_TYPES).fetchall()
        lacking = frozenset(
            type_
            for type_, extension in rows
            if extension is None or (available is not None and extension not in available)
        )
        return lacking if money_digits(self._source) == COMMON_DIGITS else lacking | {"money"}

    def table(self, oid: int) -> MirrorTable | None:
        """A table by its OID. Raises ``StateError`` and ``SourceError`` for what cannot be
        mirrored."""
        if self._state is None:
            return None
        if oid not in self._found:
            self._found[oid] = self._described(self._state, oid)
        return self._found[oid]

    def _described(self, state: Connection, oid: int) -> MirrorTable:
        from cdc.debezium.table_shapes import lost_now
        from cdc.kafka.event_reader import form_of
        from jobs.run.tables.mirrored_tables import planned
        from jobs.state.mirrors.catalog import MirrorCatalog
        from jobs.state.mirrors.types import MirrorTypes
        from jobs.state.server.connection import translated

        with translated("asking the state database"), state.transaction(force_rollback=True):
            types = MirrorTypes(self._source, state, renames=True)
            found = MirrorCatalog(types, state, self._config).table(self._source, oid)
            if self._whole.source.of_debezium:
                return planned(found, None, lost_now(self._whole, self._source, oid))
            return planned(found, form_of(self._whole))


def _extensions(config: Config) -> frozenset[str] | None:
    """What the state database could have, before it is used; None where that is not known: its own
    check tells why."""
    from jobs.state.server.binaries import extensions, find_binaries
    from jobs.state.server.connection import connect, translated

    with suppress(StateError, RetryableError):
        if not config.apply.state_dsn:
            return extensions(find_binaries())
        with (
            connect(config.apply.state_dsn, application_name="headwater check") as conn,
            translated("reading its extensions"),
        ):
            return frozenset(name for (name,) in conn.execute(_AVAILABLE))
    return None


@contextmanager
def state_mirrors(config: Config, source: Connection) -> Iterator[StateMirrors]:
    """What is wrong with the state database is told by its own check."""
    from jobs.state.views.view_status import state_session

    with ExitStack() as stack:
        state = None
        with suppress(StateError, RetryableError):
            state = stack.enter_context(state_session(config))
        yield StateMirrors(config, source, state)
