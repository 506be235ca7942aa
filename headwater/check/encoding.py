"""The encoding of the source's database: events are UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.check.finding import Finding
from headwater.check.source import Source


def encoding(source: Source) -> Iterator[Finding]:
    """Whether the server can say every text in UTF-8."""
    name = source.conn.info.parameter_status("server_encoding") or "unknown"
    if name == "SQL_ASCII":
        yield Finding(
            "error",
            "encoding",
            "the database's encoding is SQL_ASCII: its texts are bytes of any encoding, and one "
            "row that is not UTF-8 would stop capture for good",
            "dump it with pg_dump --encoding=ENCODING, the one that its texts are in, and restore "
            "it into a database made with ENCODING 'UTF8'",
        )
    else:
        yield Finding("ok", "encoding", name)
