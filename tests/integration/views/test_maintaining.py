"""Views, batch by batch, are equal to their SQL in PostgreSQL over tables of the same rows.

A few random seeds; ``python -m tests.spark_maintenance --spark`` runs as many as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.spark_maintenance.histories import (
    Keeping,
    broken_history,
    plain_history,
    set_back_history,
)
from tests.spark_maintenance.kept import Connection
from tests.spark_maintenance.mirrored import Mirrored
from tests.spark_maintenance.projected import Projected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEEDS = (0, 1)
_BATCHES = 3


@pytest.fixture(scope="module")
def connection(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres) as conn:
        yield conn
        conn.rollback()


def _marks(seed: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.exhaustive] if seed else []


@pytest.fixture(params=[pytest.param((kind, n), marks=_marks(n))
                        for n in _SEEDS for kind in (Projected, Mirrored)],
                ids=lambda of: f"{of[0].__name__}-{of[1]}")  # fmt: skip
def kept(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, connection: Connection
) -> Keeping:
    kind, seed = request.param
    print(f"seed {seed}")
    if kind is Projected:
        return Projected(spark, seed, connection)
    return Mirrored(spark, tmp_path, seed, connection)


def test_a_view_is_what_its_sql_says_after_every_batch(kept: Keeping) -> None:
    plain_history(kept, _BATCHES)


def test_whatever_was_killed_or_comes_again_the_view_is_what_its_sql_says(kept: Keeping) -> None:
    broken_history(kept, _BATCHES)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=_marks(n)) for n in _SEEDS])
def test_a_store_that_was_set_back_is_as_before_when_all_since_has_come_again(
    seed: int, spark: SparkSession, connection: Connection
) -> None:
    set_back_history(Projected(spark, seed, connection), _BATCHES)
