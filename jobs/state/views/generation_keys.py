"""The keys of a view's generation, for whoever has no plan of the view: commands beside apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc.config import Config
from cdc.errors import ViewError
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import DIRTY_SCHEMA, SHOWN_SCHEMA, KeyColumn, quoted
from jobs.state.views.view_record import ViewRecord, view_records

_TYPES = b"""
select attname, pg_catalog.format_type(atttypid, atttypmod) from pg_catalog.pg_attribute
where attrelid = pg_catalog.to_regclass(%s) and attname = any(%s)
"""


class KeyTables(Protocol):
    """The tables of dirty keys and of what a store was given; a ``ViewGeneration`` has them."""

    @property
    def id(self) -> int: ...

    @property
    def key(self) -> tuple[KeyColumn, ...]: ...

    @property
    def dirty(self) -> str: ...

    @property
    def shown(self) -> str: ...

    @property
    def key_names(self) -> str: ...


@dataclass(frozen=True, slots=True)
class GenerationKeys:
    """Of one generation; ``id`` as of ``ViewRecord``."""

    id: int
    key: tuple[KeyColumn, ...]

    @property
    def dirty(self) -> str:
        return f"{DIRTY_SCHEMA}.v{self.id}"

    @property
    def shown(self) -> str:
        return f"{SHOWN_SCHEMA}.v{self.id}"

    @property
    def key_names(self) -> str:
        return ", ".join(quoted(column.name) for column in self.key)


def live_record(conn: Connection, config: Config, view: str) -> ViewRecord | None:
    """The generation of a view that readers see: ``generations.json`` tells it, and where that is
    on another machine it is taken to be the last one that was loaded."""
    directory = view_directory(config.apply.state, config.source.name, view)
    live = read_generations(directory).live
    with translated(f"looking for view {view}"):
        loaded = [one for one in view_records(conn, view) if one.is_loaded]
    if live is None:
        return loaded[-1] if loaded else None
    return next((one for one in loaded if one.generation == live.number), None)


def generation_keys(conn: Connection, record: ViewRecord) -> GenerationKeys:
    """The keys of a generation. Raises ``ViewError`` if it is being removed."""
    return GenerationKeys(record.id, _columns(conn, record, record.key))


def keys_after(
    conn: Connection, view: KeyTables, after: Sequence[str] | None, most: int
) -> list[tuple[str, ...]]:
    """Keys that the store was given, each value as text, in their order."""
    names = [quoted(column.name) for column in view.key]
    if after is not None:  # which gives the query parameters
        names = [name.replace("%", "%%") for name in names]
    values = ", ".join(f"%s::{column.type}" for column in view.key)
    behind = "" if after is None else f"where ({', '.join(names)}) > ({values})"
    query = (
        f"select {', '.join(f'{name}::text' for name in names)} from {view.shown} {behind} "
        f"order by {', '.join(names)} limit {most}"
    )
    with translated("reading which keys a store was given"):
        return [tuple(row) for row in conn.execute(query.encode(), after).fetchall()]


def keys_given(conn: Connection, view: KeyTables) -> int:
    """How many rows the store was given, about."""
    query = "select greatest(reltuples, 0)::bigint from pg_class where oid = %s::regclass"
    with translated("counting which keys a store was given"):
        row = conn.execute(query.encode(), (view.shown,)).fetchone()
    return int(row[0]) if row else 0


def _columns(conn: Connection, record: ViewRecord, names: Sequence[str]) -> tuple[KeyColumn, ...]:
    with translated(f"looking for the keys of view {record.name}"):
        table = f"{DIRTY_SCHEMA}.v{record.id}"
        types = dict(conn.execute(_TYPES, (table, list(names))).fetchall())
    if types.keys() != set(names):
        raise ViewError(
            f"view {record.name}: generation {record.generation} is being removed", "try again"
        )
    return tuple(KeyColumn(name, types[name]) for name in names)
