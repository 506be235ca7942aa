"""How much of what is touched has to be found, and what the parts of the search ask of each other.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from sqlglot import exp

from views.maintain.touched.occurrences import Step
from views.maintain.touched.paths import Level
from views.maintain.tree.render import Writer
from views.maintain.tree.tree import Block, Query, Source, Statement

Wanted = Sequence[tuple[str, exp.Expr]]
"""Expressions, and what to call their values."""


class Find(Enum):
    """How much of what is touched has to be found.

    At the top ``SOME`` suffices: each touched value is found in the state before or in the state
    after. Below a group or a window all touched values of a state have to be found in that state,
    ``ALL``. What picks the groups or partitions themselves has to be the same in either state,
    ``BOTH``: old and new images together, and tables read in both states.
    """

    SOME = 1
    ALL = 2
    BOTH = 3


class Finder(Protocol):
    """Writes the parts of a key query."""

    statement: Statement
    columns: Mapping[str, Sequence[str]]
    beside: bool
    both_states: set[str]
    gated: set[str]

    def query(
        self, query: Query, steps: tuple[Step, ...], wanted: Sequence[tuple[str, int]], find: Find
    ) -> list[str]:
        """The touched values of a query's columns, by position."""

    def rows(self, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find) -> list[str]:
        """The touched values of expressions over the rows of a block's FROM."""

    def enumerated(
        self, block: Block, wanted: Wanted, prefix: Wanted, touched: Sequence[str]
    ) -> str:
        """The values of expressions in the rows of a block that have a touched prefix."""

    def joined(
        self,
        levels: Sequence[Level],
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        find: Find,
        inside: frozenset[str] | None = None,
    ) -> str:
        """The way from the changed rows of a source to expressions."""

    def writer(self) -> Writer:
        """What writes SQL of the statement."""
