"""What ``headwater table remove`` does: tables leave the publication, after what speaks against it.

Their topics stay with what they hold: capture has told in its marks how far it wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import SourceError, UsageError, ViewError
from cdc.routes.patterns import parse_pattern
from cdc.source.catalog import chosen_tables
from cdc.source.postgres import Connection, connect
from cdc.source.publication import drop_tables, read_publication
from cdc.source.selection import meant
from jobs.state.views.undeclared_views import with_undeclared
from views.parse.table_references import tables_read


class Removal(NamedTuple):
    """Tables that leave, as ``(schema, table)``, and their topics, which stay."""

    publication: str
    tables: tuple[tuple[str, str], ...]
    topics: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        return [".".join(table) for table in self.tables]


def planned(config: Config, names: Sequence[str]) -> Removal:
    """The published tables that ``names`` choose, as in ``source.tables``.

    Raises ``SourceError`` for one that is not published, ``UsageError`` for one that the
    configuration chooses still, or that a view reads.
    """
    source = config.source
    with connect(source.dsn, application_name="headwater table") as conn:
        found = tuple(sorted(_published(conn, source.publication_name, names)))
        chosen = {table.label for table in chosen_tables(conn, source)[0]}
    topics = tuple(source.topics(found))
    removal = Removal(source.publication_name, found, topics)
    if still := [label for label in removal.labels if label in chosen]:
        raise UsageError(
            f"source.tables chooses {', '.join(still)}",
            "remove it there or add it to source.exclude, then run this again",
        )
    for view, table in _reading(config, removal.labels):
        where = f"[views.{view}] and its rows" if view in config.views else "its rows"
        raise UsageError(
            f"view {view} reads {table}", f"remove {where}, then run `headwater view drop {view}`"
        )
    return removal


def carry_out(config: Config, removal: Removal) -> None:
    """Their changes are not captured from now on. Raises ``SourceError``."""
    with connect(config.source.dsn, application_name="headwater table") as conn:
        drop_tables(conn, removal.publication, removal.tables)


def _published(conn: Connection, name: str, names: Sequence[str]) -> set[tuple[str, str]]:
    publication = read_publication(conn, name)
    if publication is None:
        raise SourceError(
            f"there is no publication {name}", "run `headwater init` first: no table is captured"
        )
    if publication.wholesale:
        raise SourceError(
            f"publication {name} is {publication.wholesale}: no single table can be removed "
            "from it",
            "set source.publication to another name, and run `headwater init --again`",
        )
    found = set[tuple[str, str]]()
    for text in names:
        try:
            pattern = parse_pattern(text)
        except ValueError as error:
            raise UsageError(str(error)) from None
        matched = {table for table in publication.tables if pattern.matches(*table)}
        if not matched:
            labels = sorted(".".join(table) for table in publication.tables)
            known = ", ".join(labels) or "there is none"
            way = meant(text, labels) or f"choose a captured table: {known}"
            raise SourceError(f"{text} is not captured", way)
        found |= matched
    return found


def _reading(config: Config, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Views, declared or built, with the table of ``labels`` that they read."""
    for name, view in with_undeclared(config).views.items():
        try:
            read = {table.name for table in tables_read(name, view.sql)}
        except ViewError:  # no view can be made of it
            continue
        yield from ((name, label) for label in labels if label in read)
