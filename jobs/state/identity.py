"""Whose state a database holds, and whether it is as new as what Kafka and stores have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdc.errors import StateError
from cdc.source.slot import identify
from jobs.state.connection import Connection, translated

FORMAT: Final = 1
"""Of what is kept; higher when an older Headwater must not go on with it."""
Offsets = Mapping[str, Mapping[int, int]]
"""Next offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A source: its name here, its server's system identifier and the database in it."""

    source: str
    system_identifier: str
    database: str


def source_identity(source: Connection, name: str) -> Identity:
    """Of the source that a session is with; ``name`` is ``source.name``."""
    found = identify(source)
    return Identity(name, found.system_id, found.database)


def read_identity(conn: Connection) -> Identity | None:
    """Whose state it is; ``None`` in a new one. Raises ``StateError`` for another format."""
    with translated("reading whose state it is"):
        row = conn.execute(
            "select format, source, system_identifier, source_database from headwater.identity"
        ).fetchone()
    if row is None:
        return None
    if row[0] != FORMAT:
        raise StateError(
            f"the state database has format {row[0]}, this program knows {FORMAT}",
            "use the Headwater that made it, or an empty database: views are then built anew",
        )
    return Identity(*row[1:])


def claim(conn: Connection, identity: Identity) -> bool:
    """Make it this source's; true if it was nobody's. ``conn`` is in autocommit mode.

    Raises ``StateError`` when it is another source's.
    """
    found = read_identity(conn)
    if found is None:
        with translated("noting whose state it is"):
            conn.execute(
                "insert into headwater.identity (format, source, system_identifier,"
                " source_database) values (%s, %s, %s, %s)",
                [FORMAT, identity.source, identity.system_identifier, identity.database],
            )
        return True
    refuse_other_source(found, identity)
    return False


def refuse_other_source(found: Identity | None, identity: Identity) -> None:
    """Raise ``StateError`` if a state is of another source than ``identity``."""
    if found is not None and found != identity:
        raise StateError(
            f"the state database belongs to source {_told(found)}, not to {_told(identity)}",
            "name another apply.state or state_dsn. If the source was restored or replaced on"
            " purpose, empty the state database: views are then built anew",
        )


def read_stream(conn: Connection) -> dict[str, dict[int, int]]:
    """Where the stream goes on."""
    found: dict[str, dict[int, int]] = {}
    with translated("reading the stream's offsets"):
        rows = conn.execute("select topic, partition, next_offset from headwater.stream").fetchall()
    for topic, partition, offset in rows:
        found.setdefault(topic, {})[partition] = offset
    return found


def refuse_older_copy(state: Offsets, committed: Offsets, earliest: Offsets) -> None:
    """A state that was restored from a copy goes on where the copy was, if Kafka still has that.

    ``committed`` are next offsets of the views' consumer groups, ``earliest`` the oldest records
    that topics still have. Raises ``StateError`` for a partition whose records between the state
    and Kafka's oldest are gone. What is behind ``committed`` alone is read again, see ``behind``.
    """
    for topic, partitions in sorted(earliest.items()):
        for partition, oldest in sorted(partitions.items()):
            at = state.get(topic, {}).get(partition)
            if at is not None and at < oldest:
                told = committed.get(topic, {}).get(partition)
                copy = f", and views had {told}: it is an older copy" if told else ""
                raise StateError(
                    f"the state database is at offset {at} of {topic}-{partition}, Kafka's oldest"
                    f" is {oldest}{copy}",
                    "empty the state database: views are then built anew, from snapshots",
                )


def behind(state: Offsets, committed: Offsets) -> int:
    """How many records the state lacks that views have told Kafka they applied: above 0 the state
    is an older copy, or another one, and nothing may be shown until it has caught up."""
    return sum(
        max(0, told - state.get(topic, {}).get(partition, 0))
        for topic, partitions in committed.items()
        for partition, told in partitions.items()
    )


def _told(identity: Identity) -> str:
    return f"{identity.source} (database {identity.database}, system {identity.system_identifier})"
