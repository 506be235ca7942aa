"""The two systems that a maintained view's SQL is written for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from views.spark.clauses import Clause
from views.spark.expressions.terms import identifier


class Dialect(NamedTuple):
    """How a system says it. ``semi_joins``: LEFT SEMI JOIN is known, which Spark can push down."""

    words: Callable[[Clause], str]
    name: Callable[[str], str]
    semi_joins: bool


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


SPARK = Dialect(lambda clause: clause.sql, identifier, True)
POSTGRES = Dialect(lambda clause: clause.postgres, _quoted, False)
