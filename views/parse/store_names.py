"""Names that a kind of store cannot keep a view's columns under. Pure.

Asked when a view is declared and again where a store makes or extends what it holds: one function
for each kind of store. A name is a path: of a column, or of a field of the objects in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from views.types import PgType

Path = tuple[str, ...]


class Unfit(NamedTuple):
    """Why a store cannot keep the columns, and the way out."""

    reason: str
    hint: str


def unfit(kind: str, paths: Iterable[Path]) -> Unfit | None:
    """What is wrong with the names for a store of that kind; None if nothing is."""
    judge = _OF_KIND.get(kind)
    return judge(list(paths)) if judge else None


def paths_of(columns: Iterable[tuple[str, PgType]], within: Path = ()) -> Iterator[Path]:
    """The columns, and behind each the fields of its objects."""
    for name, kind in columns:
        yield (*within, name)
        yield from paths_of(kind.fields, (*within, name))


_UNFIT_FIELD = re.compile(r"^$|^_|[.*\s]")


def _opensearch(paths: list[Path]) -> Unfit | None:
    """A dot makes objects, ``_`` begins what OpenSearch says of a document itself."""
    for path in paths:
        if _UNFIT_FIELD.search(path[-1]):
            return Unfit(
                f"OpenSearch has no fields named {'.'.join(path)!r}",
                "give it another name with AS: no dot, blank or * in it, no _ before it",
            )
    return None


def _delta(paths: list[Path]) -> Unfit | None:
    """Spark and Delta take names for one that differ by case only."""
    seen: dict[Path, Path] = {}
    for path in paths:
        other = seen.setdefault(tuple(name.lower() for name in path), path)
        if other != path:
            return Unfit(
                f"Delta takes {'.'.join(other)!r} and {'.'.join(path)!r} for one name",
                "rename one with AS: names have to differ by more than case",
            )
    return None


_LONGEST_BYTES = 63
_OF_THE_SYSTEM = frozenset(("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"))


def _postgres(paths: list[Path]) -> Unfit | None:
    """Columns; objects are jsonb, whose fields may have any name."""
    for (name,) in (path for path in paths if len(path) == 1):
        if len(name.encode()) > _LONGEST_BYTES:
            return Unfit(
                f"PostgreSQL cuts names behind {_LONGEST_BYTES} bytes: {name!r}",
                "give it a shorter name with AS",
            )
        if name in _OF_THE_SYSTEM:
            return Unfit(
                f"PostgreSQL has a column {name!r} of its own in every table",
                "give it another name with AS",
            )
    return None


_OF_KIND: dict[str, Callable[[list[Path]], Unfit | None]] = {
    "opensearch": _opensearch,
    "delta": _delta,
    "postgres": _postgres,
}
