"""What a snapshot takes, as arguments say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.cli.common.context import declared

if TYPE_CHECKING:
    from cdc.config import Config


def tables_of(config: Config, views: Sequence[str]) -> list[str]:
    """The tables that views read, each as a pattern for it alone. Raises ``UsageError`` for a view
    that is not declared, ``ViewError`` for SQL that is none of a view."""
    from cdc.source.postgres import identifier
    from verification.view_facts import is_kept_by_state
    from views.parse.definition import parse_view
    from views.parse.table_references import tables_read

    found = []
    for name in views:
        view = declared(config, name)
        if is_kept_by_state(config, name):  # which takes any SELECT
            of_view = tables_read(name, view.sql)
            found += [f"{identifier(one.schema)}.{identifier(one.table)}" for one in of_view]
            continue
        parsed = parse_view(name, view.store, view.key, view.sql, view.history)
        found.append(f"{identifier(parsed.schema)}.{identifier(parsed.table)}")
    return found


def parse_range(text: str | None) -> tuple[str | None, str | None] | None:
    """``LO:HI``. Raises ``UsageError``. A key that holds a colon is what --where is for."""
    from cdc.errors import UsageError

    if text is None:
        return None
    low, colon, high = text.partition(":")
    if not colon or ":" in high or not (low or high):
        raise UsageError(f"--key-range {text!r} is not LO:HI", "use --where for other keys")
    return low or None, high or None
