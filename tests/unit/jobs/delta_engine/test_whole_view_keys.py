"""The keys of a whole view, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from cdc.errors import HeadwaterError, SinkError
from jobs.delta_engine import maintainer
from jobs.delta_engine.maintainer import Maintainer
from jobs.delta_engine.mirrors.changes import Changed
from jobs.spark.faults import UnfitValueError

ROWS = pa.table({"id": [1, 2], "price": ["1", "a"]})
KEYS = ROWS.select(["id"])
FAULT = UnfitValueError("view v: 'a' cannot be cast to int", "correct it")


class Maintenance:
    """Whose query for all rows fails."""

    def __init__(self, error: HeadwaterError) -> None:
        self._error = error
        self.came: dict[str, Changed] = {}

    @contextmanager
    def relations(self, _session: Any) -> Iterator[None]:
        yield

    def everything(self, *_: Any) -> Any:
        raise self._error

    def keys_at_hand(self) -> None:
        """No table has the key's columns."""

    def touched(self, _session: Any, changes: dict[str, Changed], _settled: int) -> pa.Table:
        self.came = changes
        return KEYS


def keys(maintenance: Maintenance, directory: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.setattr(maintainer, "Maintenance", lambda *_: maintenance)
    mirror = SimpleNamespace(versions=1, all=lambda: ROWS, live=lambda rows: rows)
    mirror.compact = mirror.vacuum = None
    view = SimpleNamespace(name="v", key=("id",))
    none, mirrors = cast(Any, None), cast(Any, {"t": mirror})
    return Maintainer(none, cast(Any, view), none, mirrors, directory).keys()


def test_a_row_that_cannot_be_made_leaves_the_keys_of_all_rows_to_be_tried_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance = Maintenance(FAULT)
    assert keys(maintenance, tmp_path, monkeypatch) is KEYS
    (came,) = maintenance.came.values()
    assert (len(came.before), came.after) == (0, ROWS)


def test_what_is_no_fault_of_rows_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SinkError):
        keys(Maintenance(SinkError("the disk is full", "make room")), tmp_path, monkeypatch)
