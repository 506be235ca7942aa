"""Rows of one table as of one LSN in a file: written once, read by many clients.

    ID.rows     keys and values, one behind the other
    ID.index    of each row where its key begins and where its value does, 8 bytes each; of row n
                the value ends where the key of row n+1 begins
    ID.json     what it is; written last, so that a spool without it is none

The files hold row values and are readable by their owner alone.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

from cdc.protocol.relation import Relation

_PAIR: Final = struct.Struct("<QQ")
_END: Final = struct.Struct("<Q")
_PARTS: Final = (".json", ".index", ".rows")


class Spooled(NamedTuple):
    """What a spool holds. ``offsets`` are those of ``topic_id`` from which its changes follow,
    ``table`` describes the columns, ``reader`` what rows depend on in the configuration."""

    id: str
    label: str
    lsn: int
    topic_id: str
    offsets: tuple[int, ...]
    rows: int
    made_at_s: float
    table: Mapping[str, Any]
    reader: str


class SpoolWriter:
    """Writes one spool; takes what ``read_table`` gives."""

    def __init__(self, folder: Path, spool_id: str) -> None:
        self._folder, self._id = folder, spool_id
        self._rows_file, self._index_file = self._open(".rows"), self._open(".index")
        self.relation: Relation | None = None
        self.lsn = 0
        self.count = 0
        self._at = 0

    def begin(self, lsn: int, relation: Relation) -> None:
        for file in (self._rows_file, self._index_file):
            file.seek(0)
            file.truncate()
        self.lsn, self.relation = lsn, relation
        self.count = self._at = 0

    def rows(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> None:
        index = bytearray()
        for key, value in zip(keys, values, strict=True):
            begin = self._at + len(key or b"")
            index += _PAIR.pack(self._at, begin)
            self._at = begin + len(value)
            if key:
                self._rows_file.write(key)
            self._rows_file.write(value)
        self._index_file.write(index)
        self.count += len(values)

    def finish(
        self, label: str, topic_id: str, offsets: tuple[int, ...], now_s: float, reader: str
    ) -> Spooled:
        """The spool is whole and on disk."""
        assert self.relation is not None, "begin comes first"
        self._index_file.write(_END.pack(self._at))
        for file in (self._rows_file, self._index_file):
            file.flush()
            os.fsync(file.fileno())
            file.close()
        table = self.relation.describe()
        found = Spooled(
            self._id, label, self.lsn, topic_id, offsets, self.count, now_s, table, reader
        )
        with self._open(".tmp") as file:
            file.write(json.dumps(found._asdict()).encode())
        (self._folder / f"{self._id}.tmp").replace(self._folder / f"{self._id}.json")
        return found

    def abandon(self) -> None:
        """Nothing of it stays."""
        for file in (self._rows_file, self._index_file):
            file.close()
        remove(self._folder, self._id)

    def _open(self, part: str) -> IO[bytes]:
        path = self._folder / f"{self._id}{part}"
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


class SpoolReader:
    """Reads one spool from any row on; one for each client. It can be read on when the spool was
    removed meanwhile."""

    def __init__(self, folder: Path, spooled: Spooled) -> None:
        self.spooled = spooled
        self._rows = os.open(folder / f"{spooled.id}.rows", os.O_RDONLY)
        try:
            self._index = os.open(folder / f"{spooled.id}.index", os.O_RDONLY)
        except OSError:
            os.close(self._rows)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._rows)
        os.close(self._index)

    def read(self, row: int, most_bytes: int) -> list[tuple[bytes, bytes]]:
        """Keys and values from ``row`` on, one at least unless that is the end."""
        left = self.spooled.rows - row
        if left <= 0:
            return []
        bounds = self._bounds(row, min(left, _rows_within(most_bytes)))
        begin, most = bounds[0], bounds[0] + most_bytes
        stop = next((i for i in range(2, len(bounds), 2) if bounds[i] >= most), len(bounds) - 1)
        data = os.pread(self._rows, bounds[stop] - begin, begin)
        at = [one - begin for one in bounds[: stop + 1]]
        return [(data[at[i] : at[i + 1]], data[at[i + 1] : at[i + 2]]) for i in range(0, stop, 2)]

    def _bounds(self, row: int, rows: int) -> tuple[int, ...]:
        size = rows * _PAIR.size + _END.size
        index = os.pread(self._index, size, row * _PAIR.size)
        assert len(index) == size, "the index is whole"
        return struct.unpack(f"<{2 * rows + 1}Q", index)


def _rows_within(most_bytes: int) -> int:
    """An event of a row has some hundred bytes at least."""
    return max(1, most_bytes // 256)


def spools_in(folder: Path) -> list[Spooled]:
    """Those that are whole."""
    found = []
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            document = json.loads(path.read_bytes())
            document["offsets"] = tuple(document["offsets"])
            found.append(Spooled(**document))
    return found


def remove(folder: Path, spool_id: str) -> None:
    """Delete a spool. Who reads it reads on."""
    for part in (*_PARTS, ".tmp"):
        with suppress(FileNotFoundError):
            (folder / f"{spool_id}{part}").unlink()


def remove_unfinished(folder: Path) -> None:
    """Delete what a server that was killed has left half written."""
    whole = {one.id for one in spools_in(folder)}
    for path in folder.iterdir():
        if path.suffix in (*_PARTS, ".tmp") and path.stem not in whole:
            path.unlink(missing_ok=True)
