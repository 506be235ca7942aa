"""Which events of a table a client gets, and as what. Pure.

A row that no longer meets the condition is told as ``left``. An update without an old image does
not say whether the row was met before, so ``left`` may name a row that the client never had: it
ignores that one. Deletes are told of all rows, for the same reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from cdc.protocol.relation import Relation
from headwater.api.changes.event_position import Event
from headwater.conditions.condition import Condition, ConditionError
from headwater.conditions.decide import holds
from headwater.conditions.fit import fitted_to_rows
from headwater.conditions.parse import parse_condition

CHANGE: Final = "change"
LEFT: Final = "left"
_INTEGERS: Final = frozenset(("int2", "int4", "int8", "oid"))


class Selection(NamedTuple):
    """``key`` is that of the only row wanted, None for all; ``digest`` tells selections apart."""

    digest: str
    condition: Condition | None = None
    key: dict[str, Any] | None = None
    has_old_rows: bool = False
    nulls: Mapping[str, None] = MappingProxyType({})
    """Columns that rows may not have, which are null then."""

    @property
    def everything(self) -> bool:
        return self.condition is None and self.key is None

    def is_of_key(self, key: bytes | None) -> bool:
        """Whether an event of this key may be wanted; those without a key are of all rows."""
        return self.key is None or key is None or orjson.loads(key) == self.key

    def kind(self, event: Event) -> str:
        """``change``, ``left`` or, for what is not told, "". Raises ``UndecidedError``."""
        if self.condition is None or event.op in ("t", "d") or event.after is None:
            return CHANGE
        if holds(self.condition, {**self.nulls, **event.after}, event.unchanged):
            return CHANGE
        if event.op == "c":
            return ""
        before = event.before if self.has_old_rows else None
        if before is not None and not holds(self.condition, before):
            return ""
        return LEFT


def selection(relation: Relation, where: str, key: str) -> Selection:
    """Of a client's ``where`` and ``key``, empty without. Raises ``ConditionError``."""
    digest = hashlib.sha256(json.dumps([where, key]).encode()).hexdigest()[:8]
    condition = fitted_to_rows(parse_condition(where), relation) if where else None
    wanted = _key(relation, key) if key else None
    return Selection(digest, condition, wanted, relation.replica_identity == "f")


def _key(relation: Relation, text: str) -> dict[str, Any]:
    """A key as events have it."""
    if not relation.key:
        raise ConditionError(f"{relation.name} has no key", "leave key out")
    bases = {one.name: one.type.base for one in relation.columns if one.name in relation.key}
    example = json.dumps(dict.fromkeys(relation.key, "..."))
    if text.lstrip().startswith("{"):
        try:
            given = json.loads(text, parse_float=str)
        except ValueError:
            raise ConditionError("key is not JSON", f"write it like {example}") from None
    elif len(relation.key) == 1:
        given = {relation.key[0]: text}
    else:
        given = {}
    if not isinstance(given, dict) or given.keys() != bases.keys():
        names = ", ".join(relation.key)
        raise ConditionError(f"key must name {names}", f"write it like {example}")
    return {name: _key_value(name, bases[name], given[name]) for name in relation.key}


def _key_value(name: str, base: str, value: Any) -> Any:
    if base in _INTEGERS:
        try:
            return int(str(value))
        except ValueError:
            raise ConditionError(f"key: {name} is an integer", "write a number") from None
    if base == "bool":
        if str(value).lower() not in ("true", "false"):
            raise ConditionError(f"key: {name} is a boolean", "write true or false")
        return str(value).lower() == "true"
    if base in ("float4", "float8"):
        try:
            return float(Decimal(str(value)))
        except InvalidOperation:
            raise ConditionError(f"key: {name} is a number", "write a number") from None
    if not isinstance(value, str | int):
        raise ConditionError(f"key: {name} is published as text", "write it as text")
    return str(value)
