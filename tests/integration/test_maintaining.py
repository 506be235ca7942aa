"""Views over mirrors, batch by batch, are equal to their SQL over the tables.

A few random seeds; ``python -m tests.maintenance --spark`` runs as many as one likes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.maintenance.mirrored import Mirrored, broken_history, plain_history, set_back_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEEDS = 3
_BATCHES = 3


@pytest.fixture(params=range(_SEEDS))
def kept(request: pytest.FixtureRequest, quickly: SparkSession, tmp_path: Path) -> Mirrored:
    print(f"seed {request.param}")
    return Mirrored(quickly, tmp_path, request.param)


def test_a_view_is_what_its_sql_says_after_every_batch(kept: Mirrored) -> None:
    plain_history(kept, _BATCHES)


def test_whatever_was_killed_or_comes_again_the_view_is_what_its_sql_says(kept: Mirrored) -> None:
    broken_history(kept, _BATCHES)


def test_a_store_that_was_set_back_is_as_before_when_all_since_has_come_again(
    kept: Mirrored,
) -> None:
    set_back_history(kept, _BATCHES)
