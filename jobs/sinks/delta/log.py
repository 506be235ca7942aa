"""The log of a Delta table on this machine, where delta-rs gives no way to what Delta has in it:
files with deletion vectors, taken from the log as they are, and commits that change them.

Delta's protocol ("Delta Log Entries", "Checkpoints"). Of tables that ``delta_rs.opened`` knows: no
checkpoints of the second form, no coordinated commits, no column mapping.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from jobs.sinks.delta.transactions import Transaction

Add = dict[str, Any]
"""An ``add`` of the log: path (as the log has it), size, stats, deletionVector and so on."""
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet")
_LEAST_COMMITS, _MOST_COMMITS = 10, 100
"""Between two checkpoints: a reader has so many to read behind one. Spark makes one every 10, and
delta-rs every 100."""
_SMALL_CHECKPOINT: Final = 128 << 10
"""Bytes, which cost nothing to speak of."""
_ONE_FILE: Final = 1 << 40
_ENGINE: Final = "Headwater"
_ADD: Final = frozenset(
    (
        *("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags"),
        *("deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
    )
)
"""What an ``add`` has in a commit. A checkpoint has statistics as columns, too."""


def adds(folder: Path, version: int, paths: set[str]) -> dict[str, Add]:
    """The newest ``add`` of each of some files that are in a version of the table."""
    log, found, missing = folder / "_delta_log", dict[str, Add](), set(paths)
    checkpoint, parts = _checkpoint(log, version)
    for number in range(version, checkpoint, -1):
        if not missing:
            return found
        for line in (log / f"{number:020}.json").read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if (add := action.get("add")) and add["path"] in missing:
                found[add["path"]] = add
        missing -= found.keys()
    for part in parts if missing else ():
        found |= _from_checkpoint(part, missing)
    return found


def _checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The newest checkpoint up to a version, and its files; -1 if there is none."""
    parts: dict[int, list[Path]] = {}
    for file in log.glob("*.checkpoint*.parquet"):
        if (named := _CHECKPOINT.fullmatch(file.name)) and int(named[1]) <= version:
            parts.setdefault(int(named[1]), []).append(file)
    newest = max(parts, default=-1)
    return newest, parts.get(newest, [])


def _from_checkpoint(file: Path, paths: set[str]) -> dict[str, Add]:
    column = pq.read_table(file, columns=["add"]).column("add")
    of = pc.is_in(pc.struct_field(column, "path"), pa.array(list(paths), pa.string()))
    return {add["path"]: _as_in_json(add) for add in column.filter(of).to_pylist()}


def _as_in_json(add: Add) -> Add:
    """Maps are lists of pairs to Arrow; what is null is not there."""
    plain = {name: value for name, value in add.items() if name in _ADD and value is not None}
    for name in ("partitionValues", "tags"):
        if name in plain:
            plain[name] = dict(plain[name])
    return plain


def staged(folder: Path, rows: pa.Table) -> Add:
    """Write rows into a file of the table, and give its ``add``: nobody reads it until a commit has
    it. The file and its statistics are delta-rs's own, of a table that is made for it elsewhere."""
    with tempfile.TemporaryDirectory(prefix="headwater-delta-") as aside:
        write_deltalake(aside, rows, target_file_size=_ONE_FILE)
        first = Path(aside, "_delta_log", f"{0:020}.json").read_text(encoding="utf-8")
        (add,) = [found for line in first.splitlines() if (found := json.loads(line).get("add"))]
        shutil.move(Path(aside, add["path"]), folder / add["path"])
    return {name: value for name, value in add.items() if value is not None}


def marked(add: Add, vector: Mapping[str, Any], rows: int) -> list[dict[str, Any]]:
    """The actions by which a file of so many rows has another deletion vector."""
    stats = json.loads(add.get("stats") or "{}") | {"numRecords": rows, "tightBounds": False}
    changed = {"dataChange": True, "stats": json.dumps(stats), "deletionVector": vector}
    return [_removed(add, data_change=True), {"add": {**add, **changed}}]


def joined(files: Sequence[Add], by: Add | None) -> list[dict[str, Any]]:
    """The actions by which rows stand in another file than before; None: they were all deleted."""
    removed = [_removed(add, data_change=False) for add in files]
    return [*removed, {"add": {**by, "dataChange": False}}] if by else removed


def _removed(add: Add, *, data_change: bool) -> dict[str, Any]:
    remove = {
        "path": add["path"],
        "deletionTimestamp": _now_ms(),
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": add.get("partitionValues", {}),
        "size": add["size"],
    }
    if vector := add.get("deletionVector"):
        remove["deletionVector"] = vector
    return {"remove": remove}


def commit(
    folder: Path,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    of: Transaction | None,
    operation: str = "MERGE",
) -> None:
    """Make the next version of a table from ``version``, -1 where there is none. Raises
    ``CommitFailedError`` where somebody else has made it."""
    read = {"readVersion": version} if version >= 0 else {}
    info = {"timestamp": _now_ms(), "operation": operation, "operationParameters": {},
            **read, "isBlindAppend": False, "engineInfo": _ENGINE}  # fmt: skip
    whole: list[Mapping[str, Any]] = [{"commitInfo": info}, *actions]
    if of is not None:
        txn = {"appId": of.app_id, "version": of.version, "lastUpdated": _now_ms()}
        whole.insert(1, {"txn": txn})
    log = folder / "_delta_log"
    aside, place = log / f".{uuid4()}.json.tmp", log / f"{version + 1:020}.json"
    try:
        aside.write_text("".join(f"{json.dumps(one)}\n" for one in whole), encoding="utf-8")
        os.link(aside, place)  # whole, or not at all; never over another's
    except FileExistsError as error:
        raise CommitFailedError(f"version {version + 1} exists") from error
    finally:
        aside.unlink(missing_ok=True)


def keep_short(table: DeltaTable, folder: Path) -> None:
    """Make a checkpoint of the log, if it is time. That can fail: the table is what it is."""
    version = table.version()
    if version % _LEAST_COMMITS == 0 and checkpoint_is_due(folder / "_delta_log", version):
        with suppress(DeltaError, OSError):
            table.create_checkpoint()


def checkpoint_is_due(log: Path, version: int) -> bool:
    """Whether the commits since the last checkpoint are as large as it is, or many. It lists all
    files that were removed for as long as old versions can be read: one every few commits would
    soon be most of what is written."""
    try:
        last = json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))
        newest, size = int(last["version"]), int(last["sizeInBytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return True
    if size <= _SMALL_CHECKPOINT or not newest <= version < newest + _MOST_COMMITS:
        return True
    return _bytes_of_commits(log, range(newest + 1, version + 1)) >= size


def _bytes_of_commits(log: Path, versions: range) -> int:
    found = 0
    for one in versions:
        with suppress(OSError):
            found += (log / f"{one:020}.json").stat().st_size
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
