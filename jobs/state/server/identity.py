"""Whose state a database holds, and whether it is as new as what Kafka and stores have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdc.errors import StateError
from cdc.source.slot import identify
from jobs.state.server.connection import Connection, translated

FORMAT: Final = 1
"""Of what is kept; higher when an older Headwater must not go on with it."""
_EMPTY: Final = (
    "empty the state database: views are then rebuilt from snapshots, and readers see the old "
    "rows until that is done"
)
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
            f"the state database has format {row[0]}, this version of Headwater supports {FORMAT}",
            "use the version of Headwater that created it, or an empty database: views are "
            "then rebuilt",
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
            "set another apply.state or state_dsn; if the source was restored or replaced on "
            "purpose, empty the state database: views are then rebuilt",
        )


def is_lost(state: Offsets, committed: Offsets) -> bool:
    """Whether a new state database stands where views were applied before. ``committed`` are next
    offsets of their consumer groups. All of these views have to be built anew."""
    return not state and behind(state, committed) > 0


def refuse_older_copy(state: Offsets, committed: Offsets, earliest: Offsets) -> None:
    """Raise ``StateError`` for a state that was restored from a copy, or that Kafka has not kept
    the next records of. ``earliest`` are the offsets of the oldest records that topics still have.

    A copy is not brought up to date by reading again what it lacks. A row that came and went
    meanwhile leaves no key to look at when both changes are in one batch, and the store may have
    it; a row that is again what it was when the copy was made is taken for unchanged.
    """
    if state and (lacks := behind(state, committed)):
        raise StateError(
            f"the state database is an older copy: it lacks {lacks} records that views have "
            "applied",
            _EMPTY,
        )
    for topic, partitions in sorted(earliest.items()):
        for partition, oldest in sorted(partitions.items()):
            at = state.get(topic, {}).get(partition)
            if at is not None and at < oldest:
                raise StateError(
                    f"the state database is at offset {at} of {topic}-{partition}, where Kafka's"
                    f" oldest record is {oldest}",
                    _EMPTY,
                )


def behind(state: Offsets, committed: Offsets) -> int:
    """How many records the state lacks that views have told Kafka they applied. Never above 0 in
    what apply leaves behind: it commits groups after the state."""
    return sum(
        max(0, told - state.get(topic, {}).get(partition, 0))
        for topic, partitions in committed.items()
        for partition, told in partitions.items()
    )


def _told(identity: Identity) -> str:
    return f"{identity.source} (database {identity.database}, system {identity.system_identifier})"
