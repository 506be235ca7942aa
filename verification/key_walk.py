"""Which keys of a view a check compares, check after check: a walk over all of them.

Two walks, for each finds what the other cannot: over the keys that the store was given, as the
state database remembers them, whose rows may differ or be left over; and over those of the source,
of which rows may be missing. Each goes on where the last check ended, in the order of the key, and
begins again at the end. Keys that differed are looked at again each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.errors import HeadwaterError, ViewError
from cdc.source.errors import translated
from cdc.source.postgres import identifier
from jobs.state.server.connection import Connection
from jobs.state.views.generation_keys import KeyTables, keys_after, keys_given
from verification.change_window import packed_keys
from verification.select_view import SelectView
from verification.source_rows import SourceSnapshot
from views.spark.view import View

KEYS: Final = 500
"""Of each walk in a check."""
_MOST_MS: Final = 3_000
"""The source is not kept busy for longer by the search for its next keys."""
_PLAIN: Final = frozenset(
    ("int2", "int4", "int8", "bool", "uuid", "text", "varchar", "name", "enum")
)
Texts = tuple[str, ...]


def has_plain_key(view: View | SelectView) -> bool:
    """Whether stores have the key's values as the source has them: rows can be asked for."""
    kinds = {output.name: output.type.name for output in view.outputs}
    return all(kinds[name] in _PLAIN for name in view.key)


@dataclass(slots=True)
class KeyWalk:
    """Keys are their values as text. ``given`` and ``source`` are where the walks are, None at
    their beginning; ``again`` are those that differed."""

    given: Texts | None = None
    source: Texts | None = None
    again: Sequence[Texts] = field(default_factory=list)
    searches: bool = True
    """Whether the source is asked for its keys: not once that took too long."""
    total: int = 0
    """How many keys the view has, about."""

    def keys(self, conn: Connection, view: KeyTables) -> Callable[[SourceSnapshot], set[bytes]]:
        """The packed keys of the next check, for a snapshot of the source; ``conn`` is with the
        state database. Raises ``ViewError`` for keys that the source cannot read."""

        def found(source: SourceSnapshot) -> set[bytes]:
            self.total = keys_given(conn, view)
            given = keys_after(conn, view, self.given, KEYS)
            self.given = given[-1] if len(given) == KEYS else None
            own = self._of_source(source) if self.searches else []
            packed = packed_keys(source, [*self.again, *given, *own])
            if packed is None:
                raise ViewError(
                    f"view {source.view}: the source cannot read the keys of its rows",
                    "`headwater verify` compares all of it",
                )
            return packed

        return found

    def _of_source(self, source: SourceSnapshot) -> list[Texts]:
        """The next ones, none where the source takes too long to find them."""
        try:
            with (
                translated(f"looking for keys of view {source.view}"),
                source.conn.transaction(force_rollback=True),  # so the limit before holds again
            ):
                source.conn.execute(f"set local statement_timeout = {_MOST_MS}".encode())
                query = _query(source, self.source)
                rows = source.conn.execute(query.encode(), self.source).fetchall()
        except HeadwaterError:
            self.searches = False
            return []
        found = [tuple(map(str, row)) for row in rows]
        self.source = found[-1] if len(found) == KEYS else None
        return found


def _query(source: SourceSnapshot, after: Texts | None) -> str:
    names, sql = [f"k.{identifier(name)}" for name in source.key_names], source.query
    if after is not None:  # which gives the query parameters
        names, sql = [name.replace("%", "%%") for name in names], sql.replace("%", "%%")
    query = f"select {', '.join(f'{name}::text' for name in names)} from ({sql}) k"
    if after is not None:
        values = ", ".join(f"%s::{kind}" for kind in source.key_types)
        query += f" where ({', '.join(names)}) > ({values})"
    return f"{query} order by {', '.join(names)} limit {KEYS}"
