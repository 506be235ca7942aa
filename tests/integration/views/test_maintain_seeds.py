"""Random views of a wide grammar, each kept through random batches.

``python -m tests.sql_maintenance`` runs more of them.
"""

from __future__ import annotations

import psycopg

from tests.sql_maintenance.seeds import run_seed

_SEEDS = (*range(40), 5422, 6376, 8377, 8540)
"""The last ones are views that a plan once missed a key of."""
_GROUPS = (*range(30), 1008)
_TWICE = range(25)


def test_random_views_are_kept_as_postgres_computes_them(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed) for seed in _SEEDS]
    kept = [outcome for outcome in outcomes if outcome.mode in ("keys", "whole")]
    assert len(kept) > len(_SEEDS) * 0.9, [
        outcome.refused for outcome in outcomes if outcome.refused
    ]
    assert sum(outcome.keys for outcome in kept) > sum(outcome.whole for outcome in kept)


def test_random_views_may_join_a_relation_under_two_aliases(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed, "twice") for seed in _TWICE]
    assert sum(outcome.mode == "keys" for outcome in outcomes) > len(_TWICE) / 2


def test_random_groups_follow_the_change_as_postgres_computes_them(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        outcomes = [run_seed(connection, seed, "groups") for seed in _GROUPS]
    kept = [outcome for outcome in outcomes if outcome.groups.startswith("by ")]
    assert len(kept) > len(_GROUPS) / 2, [outcome.groups for outcome in outcomes]
    assert {outcome.groups for outcome in kept} == {"by images", "by joins"}
