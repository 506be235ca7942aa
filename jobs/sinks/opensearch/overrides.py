"""What a view's declaration says of its OpenSearch index, over what follows from its columns. Pure.

A field is merged over the derived one: another ``type`` replaces it, anything else is added to it.
What a document has that the field cannot hold must not cost the row: the types that refuse values
get ``ignore_malformed`` unless the declaration says otherwise. ``_source`` keeps every value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cdc.errors import ViewError

_FORGIVING: Final = frozenset(
    {"byte", "short", "integer", "long", "unsigned_long", "half_float", "float", "double"}
    | {"scaled_float", "date", "date_nanos", "ip", "geo_point", "geo_shape"}
)
"""Types that take ``ignore_malformed``. https://docs.opensearch.org/latest/field-types/"""
_OBJECTS: Final = ("object", "nested")
"""Types of a struct: both have its fields."""
_NO_FIELDS: Final = ("alias", "join", "percolator")
"""Types whose fields take no value of a row, or make a document another one."""
_OURS: Final = {
    "default_pipeline": "a pipeline changes documents, and what is verified is the row",
    "final_pipeline": "a pipeline changes documents, and what is verified is the row",
    "routing_partition_size": "documents are found by their id alone",
    "blocks": "the index has to be written",
    "soft_deletes": "OpenSearch needs them for versions",
    "gc_deletes": "deleted rows are kept as tombstones",
    "translog.durability": "what OpenSearch has acknowledged has to be there after a crash",
    "hidden": "people read the index by an alias",
}
_SERVING: Final[dict[str, Any]] = {
    "number_of_shards": 1,
    "auto_expand_replicas": "0-1",
    "refresh_interval": "-1",
    "translog.durability": "request",
}
"""Refreshing is left to the sink, after each batch. A template of the cluster's may say otherwise
of the translog: what a server has acknowledged nobody sends again."""
_FILLING: Final[dict[str, Any]] = {
    "auto_expand_replicas": "false",
    "number_of_replicas": 0,
    "refresh_interval": "-1",
    "translog.flush_threshold_size": "1gb",
}
"""While an index is filled nobody reads it, and a crash of ours fills it anew."""


def unknown_columns(mapping: Iterable[str], columns: Iterable[str]) -> list[str]:
    """What a mapping names and the view does not have."""
    known = set(columns)
    return [name for name in mapping if name not in known]


def merged(
    view: str,
    derived: Mapping[str, dict[str, Any]],
    mapping: Mapping[str, Mapping[str, Any]],
    columns: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """The fields of an index, or of a struct in one that has ``columns``. Raises ``ViewError`` for
    what cannot be kept."""
    whole = derived if columns is None else columns
    return {
        name: _field(view, name, field, mapping[name], whole) if name in mapping else field
        for name, field in derived.items()
    }


def check(view: str, mapping: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Raise ``ViewError`` when a mapping is about columns that the view does not have."""
    known = list(columns)
    if unknown := unknown_columns(mapping, known):
        raise ViewError(
            f"view {view}: its mapping names {', '.join(unknown)}",
            f"choose from the view's columns: {', '.join(known)}",
        )


def _field(
    view: str,
    name: str,
    derived: dict[str, Any],
    wanted: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> dict[str, Any]:
    kind = wanted.get("type", derived["type"])
    where = f"view {view}: mapping of {name}"
    if kind in _NO_FIELDS:
        raise ViewError(
            f"{where}: a field of type {kind} cannot hold a row's value", "choose another"
        )
    copied = wanted.get("copy_to", [])
    if unknown := unknown_columns([copied] if isinstance(copied, str) else copied, columns):
        raise ViewError(
            f"{where}: copy_to names {', '.join(unknown)}, which is not a column of the view",
            "use multi_match to search several columns: the index accepts no other fields",
        )
    if "properties" in derived and kind in _OBJECTS:
        inner = _inner(view, name, derived["properties"], wanted, columns)
        return {**wanted, "type": kind, **inner}
    if kind == derived["type"]:
        inner = {**derived.get("fields", {}), **wanted.get("fields", {})}
        return {**derived, **wanted, **({"fields": inner} if inner else {})}
    forgiving = {"ignore_malformed": True} if kind in _FORGIVING else {}
    return {**forgiving, **wanted}


def _inner(
    view: str,
    name: str,
    derived: Mapping[str, dict[str, Any]],
    wanted: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> dict[str, Any]:
    """The fields of a struct, merged as those of the view are; none where it is only kept."""
    declared = wanted.get("properties", {})
    if unknown := unknown_columns(declared, derived):
        raise ViewError(
            f"view {view}: mapping of {name} names {', '.join(unknown)}",
            f"choose from its fields: {', '.join(derived)}",
        )
    if wanted.get("enabled") is False:
        return {}
    return {"properties": merged(view, derived, declared, columns)}


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Index settings by their whole names, without ``index.``; ``analysis`` is left as it is."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        whole = f"{above}{name}".removeprefix("index.")
        if isinstance(value, Mapping) and whole != "analysis":
            found |= flat(value, f"{whole}." if whole != "index" else "")
        else:
            found[whole] = value
    return found


def serving(view: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an index that people read. Raises ``ViewError`` for what Headwater needs."""
    wanted = flat(settings)
    for name in wanted:
        for ours, reason in _OURS.items():
            if name == ours or name.startswith(f"{ours}."):
                raise ViewError(
                    f"view {view}: settings: {name} may not be set", f"remove it: {reason}"
                )
    if "number_of_replicas" in wanted and "auto_expand_replicas" not in wanted:
        wanted["auto_expand_replicas"] = "false"
    return {**_SERVING, **wanted}


def filling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the same index while it is filled."""
    return {**settings, **_FILLING}


def filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is set when it is full: None is what the cluster has as default."""
    return {name: settings.get(name) for name in _FILLING}
