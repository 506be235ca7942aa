"""The keys that unsettled attempts may have written to the store, kept over kills.

An attempt that was killed behind the store's write left rows there that are made of its records. If
those come again in other company the rows of the tables may end as they were before, and nothing
would tell that the view's differ. So the keys are written down before the store is given them, and
whoever is next makes them anew as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from jobs.delta_engine.mirrors.attempts import Attempts


class TouchedKeys:
    """Those of the attempts in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, keys: pa.Table, attempt: int) -> None:
        """Durable when it returns."""
        scratch = self._directory / f"{_PREFIX}{attempt}.new"
        with pa.OSFile(str(scratch), "wb") as out, pa.ipc.new_file(out, keys.schema) as writer:
            writer.write_table(keys)
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        scratch.replace(scratch.with_suffix(_SUFFIX))

    def with_unsettled(self, keys: pa.Table, attempts: Attempts) -> pa.Table:
        """``keys`` and those of the attempts after the settled one, each once."""
        if attempts.last == attempts.settled:
            return keys
        return together([keys, *self._of(range(attempts.settled + 1, attempts.last + 1))])

    def clear(self) -> None:
        """All attempts are settled."""
        for file in self._directory.glob(f"{_PREFIX}*"):
            file.unlink(missing_ok=True)

    def _of(self, attempts: range) -> Iterator[pa.Table]:
        for attempt in attempts:
            file = (self._directory / f"{_PREFIX}{attempt}").with_suffix(_SUFFIX)
            if file.exists():
                with pa.OSFile(str(file), "rb") as written:
                    yield pa.ipc.open_file(written).read_all()


def together(keys: Sequence[pa.Table]) -> pa.Table:
    """Each key once, of tables that have each of theirs once."""
    return keys[0] if len(keys) == 1 else distinct(keys)


def distinct(keys: Sequence[pa.Table]) -> pa.Table:
    """Each key once. A column may have become wider between them."""
    every = pa.concat_tables(keys, promote_options="permissive")
    return every.group_by(every.column_names).aggregate([])


_PREFIX, _SUFFIX = "touched-", ".arrow"
