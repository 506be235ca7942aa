"""What differs between the columns that a table had and those that it has, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def column_changes(
    was: Mapping[str, str], now: Mapping[str, str], replaced: Collection[str] = ()
) -> str:
    """``lost body text; got day date; total was int4, is text``; both by name, with the types.

    ``replaced`` are names that are another column's now.
    """
    lost = [f"{name} {type_}" for name, type_ in was.items() if name not in now or name in replaced]
    got = [f"{name} {type_}" for name, type_ in now.items() if name not in was or name in replaced]
    other = [
        f"{name} was {type_}, is {now[name]}"
        for name, type_ in was.items()
        if name in now and name not in replaced and now[name] != type_
    ]
    parts = [f"lost {', '.join(lost)}"] if lost else []
    parts += [f"got {', '.join(got)}"] if got else []
    return "; ".join([*parts, *other]) or "has other columns under the same names"
