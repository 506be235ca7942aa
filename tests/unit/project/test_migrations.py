"""Migrations that have landed are never edited, not even in a comment: a database that has one
refuses another text of the same number."""

from __future__ import annotations

import pytest

from jobs.state.server.migration import FOLDER
from migrations.runner import Migration, migrations

SOURCE = (
    "4ef6e5354b660256",  # 0001 snapshots
    "795bf616ffc90784",  # 0002 outbox
    "84e17ed06a4ed393",  # 0003 snapshot_chunks
    "f7a5678dcf99766d",  # 0004 signals
    "dd76a46f85156cb9",  # 0005 snapshot_dead_letters
    "52a7996fb08a6ca4",  # 0006 emit_rights
    "939148cc78714eba",  # 0007 treated_columns
)
STATE = (
    "e6261081c526aa43",  # 0001 state
    "9ca24dfaaba2f339",  # 0002 views
    "4b43cfa24d1cc88e",  # 0003 mirrors
    "a9c34d6041db24c1",  # 0004 faulty_records
    "6ed59f89a9e04ce3",  # 0005 unbuilt_views
    "4849af1b500668e0",  # 0006 histories
    "9ba60e0eb0e3ba86",  # 0007 groups
    "7277d9ed53c89726",  # 0008 topic_ids
    "21e40cf7ad0bdb0e",  # 0009 fill_snapshots
    "5848d63528ce32f4",  # 0010 feeds
    "aed6fa52fbcfbdcd",  # 0011 view_alerts
    "ee6d04569e043a55",  # 0012 view_alerts_of_builds
    "09c6d13024f6c8f4",  # 0013 undeclared_alerts
)
"""The beginning of each one's checksum. A new migration gets a new line; no line changes."""


@pytest.mark.parametrize(
    ("files", "landed"),
    [(migrations(), SOURCE), (migrations(FOLDER), STATE)],
    ids=["source", "state"],
)
def test_what_has_landed_stays_as_it_is(files: list[Migration], landed: tuple[str, ...]) -> None:
    assert tuple(one.checksum[: len(landed[0])] for one in files) == landed
