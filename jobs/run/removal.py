"""What nobody needs any more: generations, the tables of theirs, mirrors."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent
from jobs.run.builds.generation_files import GenerationFiles
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.state.batch.stream_offsets import remove_topics
from jobs.state.mirrors.indexes import drop_spare_indexes
from jobs.state.mirrors.mirror_record import MirrorRecord, drop_mirror, read_mirrors
from jobs.state.server.connection import Connection
from jobs.state.views.view_record import forget_view, tables_of, view_records

log = structlog.get_logger("apply")


def drop_generation(conn: Connection, files: GenerationFiles, number: int) -> None:
    """Remove one that nobody reads, or the live one: of that, the view is gone from the store.
    Killed meanwhile it is one that cannot be shown any more, and is dropped with the next."""
    files.drop(number)
    for record in view_records(conn, files.name):
        if record.generation == number:
            forget_view(conn, record.id)


def drop_expired(conn: Connection, files: GenerationFiles) -> None:
    """Remove those that are kept no longer."""
    for old in files.expired():
        try:
            drop_generation(conn, files, old.number)
        except HeadwaterError as error:  # the next one is asked again
            log.warning(LogEvent.GENERATION_NOT_DROPPED, view=files.name, error=str(error))


def drop_all(conn: Connection, files: GenerationFiles) -> list[int]:
    """Remove a view, its live generation last; the numbers of what is gone."""
    found = files.read()
    numbers = sorted(found.of, key=lambda number: found.of[number].phase == "live")
    for number in numbers:
        drop_generation(conn, files, number)
    files.clear()
    forget_unknown(conn, files)
    return numbers


def forget_unknown(conn: Connection, files: GenerationFiles) -> None:
    """Remove the tables of generations that were never loaded, or that nobody knows any more; also
    of one that was killed between its load and the note of that, whose number the next one has."""
    known = {number for number, one in files.read().of.items() if one.phase != "planned"}
    for record in view_records(conn, files.name):
        if record.generation not in known or not record.is_loaded:
            forget_view(conn, record.id)


def spare_mirrors(conn: Connection, declared: Iterable[tuple[str, str]]) -> dict[str, MirrorRecord]:
    """The mirrors that no view needs, built or ``declared`` (its name and SQL), by
    ``schema.table``."""
    built = ((record.name, record.sql) for record in view_records(conn))
    needed = {label for name, sql in (*built, *declared) for label in tables_of(name, sql)}
    return {label: one for label, one in read_mirrors(conn).items() if label not in needed}


def drop_spare_mirrors(
    conn: Connection, tables: MirroredTables, declared: Iterable[tuple[str, str]]
) -> None:
    """Remove the mirrors that no view needs, their topics from the stream, which stands, and
    indexes that no mirror needs any more."""
    spare = spare_mirrors(conn, declared)
    with conn.transaction():
        for record in spare.values():
            drop_mirror(conn, record)
        remove_topics(conn, [tables.topic(label) for label in spare])
    for label in sorted(spare):
        log.info(LogEvent.MIRROR_DROPPED, table=label)
    drop_spare_indexes(conn)
