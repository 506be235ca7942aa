"""What is told of rows that a store does not take."""

from __future__ import annotations

import hashlib

from cdc.lsn import Position
from jobs.sinks.row_errors import Refused, refused_rows


def test_a_refused_row_is_told_by_the_hash_of_its_key() -> None:
    rows = [
        Refused("ada@example.org", Position(0x1_00000010, 3), "Redis refused it: too large"),
        Refused(None, Position(9, 1), "Redis refused it: no key"),
    ]
    error = refused_rows("view v: Redis at host:6379", rows, "do this")
    digest = hashlib.sha256(b"ada@example.org").hexdigest()[:12]
    assert error.message == (
        "view v: Redis at host:6379 refused 2 rows, the first (SHA-256 of its key "
        f"{digest}, at 1/10/3): too large"
    )
    assert "ada" not in str(error)
    assert error.rows == tuple(rows)
