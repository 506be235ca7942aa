"""What the server says in a replication session: the messages of pgoutput as values. Pure.

Column values stay in PostgreSQL's text form, as bytes. A value is ``bytes``, ``None`` for NULL,
or ``UNCHANGED`` for a TOASTed value that the server did not send; the three are never mixed up.
An old image is a ``KEY`` image (only the identity's columns are set) or a ``FULL`` one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

POSTGRES_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 UTC, from which PostgreSQL counts, in microseconds since 1970."""


class Unchanged(Enum):
    """The type of ``UNCHANGED``."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value = bytes | None | Unchanged
Values = list[Value]


class Image(Enum):
    """What an old row holds: identity columns only, or every column."""

    KEY = "K"
    FULL = "O"


class Begin(NamedTuple):
    """``commit_lsn`` is where the commit record starts; times are microseconds since 1970."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """``end_lsn`` is just after the commit record: the LSN to confirm."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


class Origin(NamedTuple):
    """The transaction came from another server, where it committed at ``lsn``."""

    lsn: int
    name: str


class RelationColumn(NamedTuple):
    """A published column; ``key`` says that it is part of the replica identity."""

    name: str
    type_oid: int
    typmod: int
    key: bool


class RelationMessage(NamedTuple):
    """A table as the following rows have it; sent again after DDL and in every session."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


class TypeMessage(NamedTuple):
    """Names a type that is not built in."""

    oid: int
    schema: str
    name: str


class Insert(NamedTuple):
    relation_oid: int
    new: Values


class Update(NamedTuple):
    """``old`` is sent when the identity changed or is FULL; ``image`` says what it holds."""

    relation_oid: int
    image: Image | None
    old: Values | None
    new: Values


class Delete(NamedTuple):
    relation_oid: int
    image: Image
    old: Values


class Truncate(NamedTuple):
    relation_oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


class Omitted(NamedTuple):
    """Content that is not kept: its size in bytes, and its SHA-256 in hex."""

    bytes: int
    sha256: str


class LogicalMessage(NamedTuple):
    """``pg_logical_emit_message``; outside of any transaction when not ``transactional``. Of one
    that is ``omitted`` there is no content, and only the beginning of the prefix."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes
    omitted: Omitted | None = None


Message = (
    Begin
    | Commit
    | Origin
    | RelationMessage
    | TypeMessage
    | Insert
    | Update
    | Delete
    | Truncate
    | LogicalMessage
)


def filled(new: Values, old: Values, full: bool, key_columns: Sequence[int]) -> Values:
    """The new row with unchanged TOAST taken from an old image that has it."""
    if UNCHANGED not in new:
        return new
    return [
        old[i] if value is UNCHANGED and (full or i in key_columns) else value
        for i, value in enumerate(new)
    ]
