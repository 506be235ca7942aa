"""Values that are treated before they leave the source, as ``verify`` has them. Pure.

PostgreSQL cannot treat them: the key would stand in the text of its statements. So a view's SQL is
run over tables of which such a column is its text behind a tag, and whatever comes out with the tag
is treated here. Views do nothing with these columns but show them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cdc.protocol.treatment import Treatment
from cdc.source.postgres import identifier, literal

Treatments = Mapping[str, Mapping[str, Treatment]]
"""By ``schema.table`` and column."""
UNTREATED: Final[Treatments] = MappingProxyType({})
_TAG_BYTES: Final = 12
_DIGITS: Final = 4


class TreatedValues:
    """Of one connection. The tag is random, so that no value has it of its own."""

    def __init__(self, treatments: Treatments = UNTREATED) -> None:
        self._of = treatments
        self._tag = f"\x01{secrets.token_hex(_TAG_BYTES)}"
        self._treatments = [one for of in treatments.values() for one in of.values()]
        self._functions = [one.function() for one in self._treatments]

    def __bool__(self) -> bool:
        return bool(self._treatments)

    def columns(self, label: str) -> frozenset[str]:
        """The treated columns of ``schema.table``."""
        return frozenset(self._of.get(label, ()))

    def tagged(self, label: str) -> dict[str, str]:
        """Expressions for the treated columns of ``schema.table``, by name."""
        return {
            name: self._expression(name, self._treatments.index(treatment))
            for name, treatment in self._of.get(label, {}).items()
        }

    def read(self, value: str) -> str:
        """A text that a query gave, as it leaves the source."""
        if not value.startswith(self._tag):
            return value
        number = len(self._tag) + _DIGITS
        treat = self._functions[int(value[len(self._tag) : number])]
        return treat(value[number:].encode()).decode()

    def _expression(self, name: str, number: int) -> str:
        tag = literal(f"{self._tag}{number:0{_DIGITS}}")
        column = identifier(name)
        # format() calls the type's own output function, as COPY does: a cast to text does not.
        return (
            f"case when pg_catalog.num_nonnulls({column}) = 1 "
            f"then {tag} || pg_catalog.format('%s', {column}) end"
        )
