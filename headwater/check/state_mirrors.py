"""Tables as the state database would mirror them: what of it cannot be computed with, and why.

It is asked where it runs and has been used; else nobody knows yet which extensions and collations
it has, and apply tells. What asking would make is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from cdc.config import Config
from cdc.errors import RetryableError, StateError
from cdc.source.postgres import Connection

if TYPE_CHECKING:
    from views.maintain import MirrorTable


class StateMirrors:
    """Of one source. ``state`` is None where nobody can be asked."""

    def __init__(self, config: Config, source: Connection, state: Connection | None) -> None:
        self._config, self._source, self._state = config.source, source, state
        self._found: dict[int, MirrorTable] = {}

    def table(self, oid: int) -> MirrorTable | None:
        """A table by its OID. Raises ``StateError`` and ``SourceError`` for what cannot be
        mirrored."""
        if self._state is None:
            return None
        if oid not in self._found:
            self._found[oid] = self._described(self._state, oid)
        return self._found[oid]

    def _described(self, state: Connection, oid: int) -> MirrorTable:
        from jobs.run.tables.mirrored_tables import planned
        from jobs.state.mirrors.catalog import MirrorCatalog
        from jobs.state.mirrors.types import MirrorTypes
        from jobs.state.server.connection import translated

        with translated("asking the state database"), state.transaction(force_rollback=True):
            types = MirrorTypes(self._source, state)
            return planned(MirrorCatalog(types, state, self._config).table(self._source, oid))


@contextmanager
def state_mirrors(config: Config, source: Connection) -> Iterator[StateMirrors]:
    """What is wrong with the state database is told by its own check."""
    from jobs.state.views.view_status import state_session

    with ExitStack() as stack:
        state = None
        with suppress(StateError, RetryableError):
            state = stack.enter_context(state_session(config))
        yield StateMirrors(config, source, state)
