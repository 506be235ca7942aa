"""Timelines: where a promoted standby left the history that Kafka was filled from.

Up to the LSN at which a timeline branches off, its WAL is that of its parent byte for byte; so what
was published of the parent below that LSN is true of the child, and what lies above is lost.
https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES
"""

from __future__ import annotations

from typing import NamedTuple

from cdc.errors import SourceError
from cdc.lsn import parse_lsn
from cdc.source.bounded_query import answered
from cdc.source.errors import translated
from cdc.source.postgres import connect


class Branch(NamedTuple):
    """The end of a timeline: its successor went on from ``lsn``."""

    timeline: int
    lsn: int


def read_history(dsn: str, timeline: int) -> list[Branch]:
    """How ``timeline`` came about, oldest ancestor first. Raises ``SourceError``."""
    if timeline == 1:
        return []  # the first has no history, and no file of it
    doing = f"reading the history of timeline {timeline}"
    with connect(dsn, replication=True) as session, answered(session), translated(doing):
        row = session.execute(f"TIMELINE_HISTORY {timeline}".encode()).fetchone()
    content = row[1] if row else ""
    return parse_history(bytes(content).decode() if not isinstance(content, str) else content)


def parse_history(content: str) -> list[Branch]:
    """The lines of a ``.history`` file: timeline, LSN, reason. Pure."""
    branches = []
    for line in content.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            branches.append(Branch(int(fields[0]), parse_lsn(fields[1])))
        except (ValueError, IndexError):
            raise SourceError(f"unknown line {line!r} in a timeline's history") from None
    return branches


def branched_at(history: list[Branch], timeline: int) -> int | None:
    """Where ``timeline`` was left, None when it is no ancestor. Pure.

    Every timeline between is left at or above that LSN, so the first branch decides.
    """
    return next((branch.lsn for branch in history if branch.timeline == timeline), None)
