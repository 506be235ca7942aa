"""Fields of an event that a row gets beside its columns, ``add.fields``, or in headers of its
record, ``add.headers``. Pure.

A name is that of a field of the event, else of its source block: ``op``, ``lsn``; or it says
which: ``source.ts_ms``. A name of one's own follows a colon: ``op:kind``. In the row it begins with
``__``, or what is set for headers, and points are ``_``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from cdc.events.schemas.event_schemas import SOURCE
from cdc.events.schemas.schema import INT64, STRING, Schema

DELETED: Final = "__deleted"
"""Says whether a row is there no more, where deletes are rewritten."""
_PREFIX: Final = "__"
_TAKEN: Final = frozenset({"position", "part", "__debezium.newkey", "__debezium.oldkey"})
_SOURCE: Final = "source."
_OF_EVENT: Final = {"op": STRING, "ts_ms": INT64, "ts_us": INT64, "ts_ns": INT64}
_OF_SOURCE: Final = {name: of for name, of in SOURCE.fields if name != "unchanged"}


class Added(NamedTuple):
    """``path`` is ``op`` or ``source.lsn``."""

    name: str
    path: str
    schema: Schema


def added_fields(names: str) -> list[Added]:
    """The fields in order. Raises ``ValueError`` for a name that no event has, and for two that
    would be one."""
    found = _distinct(names, _PREFIX)
    if any(one.name == DELETED for one in found):
        raise ValueError(f"names {DELETED}, which rewritten deletes have")
    return found


def added_headers(names: str, prefix: str) -> list[Added]:
    """The headers in order. Raises ``ValueError`` as ``added_fields``, and for a name that records
    have already."""
    found = _distinct(names, prefix)
    if taken := [one.name for one in found if one.name in _TAKEN]:
        raise ValueError(f"names {taken[0]}, which records have already")
    return found


def deleted_field() -> Added:
    """What rewritten deletes add in front."""
    return Added(DELETED, "", STRING.as_optional())


def _distinct(names: str, prefix: str) -> list[Added]:
    found = [_added(one.strip(), prefix) for one in names.split(",") if one.strip()]
    twice = {one.name for one in found if [other.name for other in found].count(one.name) > 1}
    if twice:
        raise ValueError(f"names {', '.join(sorted(twice))} twice")
    return found


def _added(given: str, prefix: str) -> Added:
    path, _, own = given.partition(":")
    path = path.strip()
    name = prefix + (own.strip() or path.replace(".", "_"))
    if path in _OF_EVENT:
        return Added(name, path, _OF_EVENT[path].as_optional())
    field = path.removeprefix(_SOURCE)
    if field not in _OF_SOURCE:
        known = ", ".join([*_OF_EVENT, *(_SOURCE + one for one in _OF_SOURCE)])
        raise ValueError(f"has {path}, which no event has: choose of {known}")
    schema = replace(_OF_SOURCE[field].as_optional(), default=None)
    return Added(name, _SOURCE + field, schema)
