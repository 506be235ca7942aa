"""Topics that were deleted and made anew, or are another Kafka cluster's of the same name.

Offsets of a topic that is gone say nothing of the one that has its name now: the stream would read
on from the middle of that, or wait beyond its end. Such a table is mirrored anew from the source,
at an LSN of its own, and the stream has its topic from where it ends now. So nothing is missing in
mirrors, whatever the topic holds.
"""

from __future__ import annotations

from typing import Final

import structlog

from cdc.log_events import LogEvent
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.state.batch.stream_offsets import (
    forget_offsets,
    recreated_topics,
    remove_topics,
    stream_offsets,
)
from jobs.state.dead_letters.faulty_records import forget_table
from jobs.state.mirrors.mirror_record import mark_stale
from jobs.state.server.connection import Connection

_REASON: Final = "its topic was recreated"

log = structlog.get_logger("apply")


def recreated(conn: Connection, tables: MirroredTables) -> list[str]:
    """The topics of the stream that are not those any more which it has read."""
    topics = sorted(stream_offsets(conn))
    return recreated_topics(conn, tables.broker.topic_ids(topics)) if topics else []


def leave_recreated(
    conn: Connection, tables: MirroredTables, generations: GenerationRegistry
) -> bool:
    """Mark the mirrors of such topics as stale, and take these out of the stream, which stands;
    whether there were some. What could not be applied is forgotten with them: its offsets are those
    of other records now. Within ``GenerationRegistry.changing``."""
    if not (topics := recreated(conn, tables)):
        return False
    held = tables.filled(conn)
    stale = [label for label in held if tables.topic(label) in topics]
    with conn.transaction():
        for label in stale:
            mark_stale(conn, held[label].id, _REASON)
            forget_table(conn, held[label].id)
        remove_topics(conn, topics)
        forget_offsets(conn, topics)
    log.warning(LogEvent.TOPICS_RECREATED, tables=stale, then="their mirrors are filled anew")
    generations.pass_over(stale)
    return True
