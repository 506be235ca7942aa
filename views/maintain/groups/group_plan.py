"""How a group is kept by the change: the plan, as SQL with placeholders. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from views.maintain.groups.values import Argument, Value
from views.maintain.indexes import Index
from views.maintain.tree.render import Template

SUMS: Final = '"__groups"'
"""Where the groups' sums stand in ``GroupPlan.rows_template``."""
Relation = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Groups that are kept by the change.

    The body has the columns ``keys`` (of the view's key: kept name and name in the view),
    ``others`` that are grouped by besides, and ``arguments``. ``plain`` are those of the former two
    that are columns of a table, in which equal values are one and the same; ``texts`` are those
    that may be text of such columns. ``table`` is the one whose images are the body's changed
    rows; "" for joins, which have ``anchors``: tables and their key columns, whose touched values
    ``touched_templates`` find, by table.
    """

    keys: tuple[tuple[str, str], ...]
    others: tuple[str, ...]
    plain: frozenset[str]
    texts: frozenset[str]
    arguments: tuple[Argument, ...]
    values: tuple[Value, ...]
    grouped: bool
    table: str
    anchors: tuple[tuple[str, str], ...]
    body_template: Template
    changed_template: Template
    touched_templates: tuple[tuple[str, Template], ...]
    rows_template: Template
    indexes: tuple[Index, ...]

    def body(self, relation: Relation) -> str:
        """SELECT: the rows that are grouped, all of them."""
        return self.body_template.fill(relation, "")

    def changed(self, relation: Relation, given: str) -> str:
        """SELECT: those of images, of one table; else those whose anchors are in a relation with
        columns ``d0``, ``d1`` and so on."""
        return self.changed_template.fill(relation, given)

    def touched(self, relation: Relation, images: Relation, table: str) -> list[str]:
        """SELECTs of the anchors that changed rows of a table touch, the same in both states.
        ``images`` gives the old and new images of a table."""
        return [
            template.fill(relation, images(table), images)
            for name, template in self.touched_templates
            if name == table
        ]

    def rows(self, relation: Relation, sums: str, keys: str) -> str:
        """SELECT: the view's rows of the keys in a relation, made of the groups' sums: a SELECT
        with the kept columns and one for each value, of these keys at least."""
        made = replace(self.rows_template, text=self.rows_template.text.replace(SUMS, f"({sums})"))
        return made.fill(relation, keys)
