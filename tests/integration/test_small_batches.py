"""Small batches of a view, on a real Kafka and a real Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.schema import PLACEHOLDER
from jobs.small.at_hand import brought
from tests.parkings import applied
from tests.written import row, v1

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tests.bootstraps import Setting


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each evaluation of a kept plan."""
    found = list[int]()

    def counted(rows: DataFrame) -> pa.Table | None:
        found.append(len(found))
        return brought(rows)

    monkeypatch.setattr("jobs.small.prepared.brought", counted)
    return found


def test_a_batch_with_a_gap_is_folded_once_to_find_it_and_once_to_fill_it(
    cached: Setting, evaluations: list[int]
) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), v1(1, 2, row(2, "b")))
    assert applied(cached) == {}
    log.write(v1(2, 1, row(1, "c"), "u"))
    evaluations.clear()
    assert applied(cached) == {}
    assert len(evaluations) == 1
    log.write(v1(3, 1, row(1, "filled"), "u"), v1(4, 1, row(1, PLACEHOLDER), "u"))
    evaluations.clear()
    assert applied(cached) == {}
    assert len(evaluations) == 2
    assert cached.shown() == {1: "filled", 2: "b"}
