"""``[events]``: the form of events, by Debezium's names of its modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from cdc.config.stores import Section
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import (
    DEBEZIUM,
    NAMES,
    OURS,
    Binaries,
    Decimals,
    Form,
    Hstores,
    Intervals,
    Times,
)

_LONGEST: Final = 200


def _listed(value: Any) -> Any:
    """``"c,t"`` or ``["c", "t"]``; Debezium writes the former, and ``"none"`` for no operation."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return () if value == ["none"] else value


class Events(Section):
    """What Kafka's records look like. Without ``preset`` what is not set is Headwater's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    preset: Literal["debezium"] | None = None
    """``debezium``: what a connector of Debezium without settings emits."""
    schemas: bool = False
    times: Times = Field(default="isostring", alias="time.precision.mode")
    decimals: Decimals = Field(default="string", alias="decimal.handling.mode")
    binaries: Binaries = Field(default="base64", alias="binary.handling.mode")
    intervals: Intervals = Field(default="string", alias="interval.handling.mode")
    hstores: Hstores = Field(default="json", alias="hstore.handling.mode")
    placeholder: str = Field(
        default=PLACEHOLDER,
        alias="unavailable.value.placeholder",
        min_length=1,
        max_length=_LONGEST,
    )
    skipped: Annotated[tuple[Literal["c", "u", "d", "t"], ...], BeforeValidator(_listed)] = Field(
        default=(), alias="skipped.operations"
    )
    tombstones: bool = Field(default=True, alias="tombstones.on.delete")

    @model_validator(mode="before")
    @classmethod
    def _names_have_dots(cls, value: Any) -> Any:
        """TOML reads ``time.precision.mode`` as a name in a table in a table."""
        return _flat(value) if isinstance(value, dict) else value

    @field_validator("placeholder")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if value.startswith("hex:"):
            raise ValueError("is text: the bytes that Debezium reads behind hex: are not supported")
        if not value.isprintable():
            raise ValueError("has characters that cannot be printed: choose others")
        return value

    @property
    def form(self) -> Form:
        """The form of all topics of the source."""
        base = DEBEZIUM if self.preset else OURS
        given = {name: getattr(self, name) for name in _FIELDS if name in self.model_fields_set}
        if "skipped" in given:
            given["skipped"] = frozenset(given["skipped"])
        return Form(**{name: getattr(base, name) for name in _FIELDS} | given)


_FIELDS: Final = (*NAMES.values(), "skipped", "tombstones")
_KNOWN: Final = frozenset(
    name for field in Events.model_fields.values() if (name := field.alias) is not None
)


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The settings by their whole names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        whole = f"{before}{name}"
        if isinstance(value, dict) and any(one.startswith(f"{whole}.") for one in _KNOWN):
            found |= _flat(value, f"{whole}.")
        else:
            found[whole] = value
    return found
