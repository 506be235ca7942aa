"""Random views of a wide grammar, each kept through random batches.

``python -m tests.sql_maintenance`` runs more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from tests.sql_maintenance.seeds import run_seed


def _more(seeds: range) -> Any:
    return pytest.param(seeds, marks=pytest.mark.exhaustive)


_SEEDS = [(*range(10), 5422, 6376, 8377, 8540), _more(range(10, 40))]
"""The last ones of the suite are views that a plan once missed a key of."""
_GROUPS = [(*range(10), 1008), _more(range(10, 30))]
_TWICE = [range(8), _more(range(8, 25))]


@pytest.mark.parametrize("seeds", _SEEDS)
def test_random_views_are_kept_as_postgres_computes_them(
    database: str, seeds: Sequence[int]
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed) for seed in seeds]
    kept = [outcome for outcome in outcomes if outcome.mode in ("keys", "whole")]
    assert len(kept) > len(seeds) * 0.9, [
        outcome.refused for outcome in outcomes if outcome.refused
    ]
    assert sum(outcome.keys for outcome in kept) > sum(outcome.whole for outcome in kept)


@pytest.mark.parametrize("seeds", _TWICE)
def test_random_views_may_join_a_relation_under_two_aliases(
    database: str, seeds: Sequence[int]
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed, "twice") for seed in seeds]
    assert sum(outcome.mode == "keys" for outcome in outcomes) > len(seeds) / 2


@pytest.mark.parametrize("seeds", _GROUPS)
def test_random_groups_follow_the_change_as_postgres_computes_them(
    database: str, seeds: Sequence[int]
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed, "groups") for seed in seeds]
    kept = [outcome for outcome in outcomes if outcome.groups.startswith("by ")]
    assert len(kept) > len(seeds) / 2, [outcome.groups for outcome in outcomes]
    assert {outcome.groups for outcome in kept} == {"by images", "by joins"}
