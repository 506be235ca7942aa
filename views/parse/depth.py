"""SQL that is nested deeper than Python goes: refused, as all that a view cannot be."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from cdc.errors import ViewError

_F = TypeVar("_F", bound=Callable[..., Any])


def bounded(read: _F) -> _F:
    """``read``, whose first argument is a view's name or definition, with a ``ViewError`` where its
    SQL goes too deep."""

    @wraps(read)
    def limited(view: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return read(view, *arguments, **named)
        except RecursionError:
            name = view if isinstance(view, str) else view.name
            raise ViewError(
                f"view {name}: its SQL is nested too deep",
                "shorten its chains of OR, AND and +, or nest less; a column's values go in IN (…)",
            ) from None

    return limited  # type: ignore[return-value]
