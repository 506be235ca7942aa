"""What SQL there can be a history of: each of its rows is made of one row of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cdc.errors import ViewError

if TYPE_CHECKING:
    from views.maintain.plan import ViewPlan


class KeyColumn(NamedTuple):
    """A column of a history's key: its name, and the table's column that it is, as that is called
    now; ``is_text``: it is that one's text."""

    name: str
    of: str
    is_text: bool = False


def several_rows(name: str, history: str, reason: str = "") -> ViewError:
    """Of a view whose rows are made of several ones; ``reason`` says by what."""
    return ViewError(
        f'view {name}: no history = "{history}" for rows computed from several '
        f"rows{f' ({reason})' if reason else ''}: they are recomputed once per batch, so states "
        "in between are not known",
        "keep the history of each table in a separate view, and join the views when reading",
    )


class Names(Protocol):
    """What a view calls the columns of its tables."""

    @property
    def called(self) -> Mapping[str, Mapping[str, str]]:
        """By ``schema.table`` the present names of columns, if one of them is another."""


def history_key(
    history: str, plan: ViewPlan, keys: Mapping[str, Sequence[str]], names: Names
) -> tuple[KeyColumn, ...]:
    """The key of a history that is planned over mirrors. ``keys`` are those of its tables as they
    are called now, by ``schema.table``.

    Raises ``ViewError`` for SQL of which there is no history.
    """
    if plan.single.reason:
        raise several_rows(plan.name, history, plan.single.reason)
    (label,) = plan.reads
    called = names.called.get(label, {})
    shown = tuple(called.get(one, one) for one in plan.single.key)
    if sorted(shown) != sorted(keys[label]):
        raise ViewError(
            f"views.{plan.name}.key: a history follows the rows of {label}, whose key is "
            f"({', '.join(keys[label])})",
            "select these columns as they are, or as text, and name them in key",
        )
    if plan.clock:
        raise ViewError(
            f"view {plan.name}: a history records changes of rows, but the result of its SQL "
            "also changes with time",
            "remove now(): each row of a history has its time",
        )
    texts = plan.single.texts
    pairs = zip(plan.key, plan.single.key, strict=True)
    return tuple(KeyColumn(name, called.get(of, of), of in texts) for name, of in pairs)
