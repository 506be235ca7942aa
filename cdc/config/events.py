"""``[events]``: the form of events, by Debezium's names of its modes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from cdc.config.contents import Added, refuse_unfit_settings
from cdc.config.dotted import flat
from cdc.config.registry import Registry
from cdc.config.stores import Section
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import (
    DEBEZIUM,
    NAMES,
    OURS,
    Binaries,
    Content,
    Decimals,
    Deletes,
    Form,
    Format,
    Hstores,
    Intervals,
    Times,
)
from cdc.routes.route import Route

_LONGEST: Final = 200


def _listed(value: Any) -> Any:
    """``"c,t"`` or ``["c", "t"]``; Debezium writes the former, and ``"none"`` for no operation."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return () if value == ["none"] else value


class Events(Section):
    """What Kafka's records look like. Without ``preset`` what is not set is Headwater's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    format: Format = "json"
    registry: Registry | None = None
    preset: Literal["debezium"] | None = None
    """``debezium``: what a connector of Debezium without settings emits."""
    schemas: bool = False
    content: Content = "event"
    """``row``: the row alone, as ``ExtractNewRecordState`` makes it of an event; ``cloudevents``:
    as ``CloudEventsConverter`` does."""
    added: Added = Field(default="", alias="add.fields")
    headers: Added = Field(default="", alias="add.headers")
    header_prefix: str = Field(default="__", alias="add.headers.prefix")
    deletes: Deletes = Field(default="tombstone", alias="delete.tombstone.handling.mode")
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
        return flat(value, _KNOWN) if isinstance(value, dict) else value

    @field_validator("placeholder")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if value.startswith("hex:"):
            raise ValueError("is text: the bytes that Debezium reads behind hex: are not supported")
        if not value.isprintable():
            raise ValueError("has characters that cannot be printed: choose others")
        return value

    @model_validator(mode="after")
    def _formats_have_a_registry(self) -> Events:
        if self.format == "json":
            if self.registry is not None:
                raise ValueError(
                    'registry: without effect: set format to "avro", "json-schema" or '
                    '"protobuf", or remove it'
                )
            return self
        if self.registry is None:
            raise ValueError(
                f'registry: is missing: format "{self.format}" keeps schemas in one: set its url'
            )
        if "schemas" in self.model_fields_set:
            raise ValueError(
                f'schemas: without effect: with format "{self.format}" the registry has them: '
                "remove it"
            )
        return self

    @model_validator(mode="after")
    def _rows_have_what_they_take(self) -> Events:
        given = self.model_fields_set
        if self.content == "cloudevents" and self.format != "json":
            raise ValueError(
                'content: "cloudevents" are JSON: remove format and registry, or content'
            )
        refuse_unfit_settings(self.content == "row", self)
        if self.content != "row":
            return self
        if self.format == "protobuf":
            raise ValueError('content: "row" is not written as Protobuf: choose another format')
        if "tombstones" in given:
            raise ValueError(
                'tombstones.on.delete: without effect: with content = "row" '
                "delete.tombstone.handling.mode says what a delete is"
            )
        return self

    def form_with(self, routes: tuple[Route, ...]) -> Form:
        """The form of all topics of the source."""
        base = DEBEZIUM if self.preset else OURS
        given = {name: getattr(self, name) for name in _FIELDS if name in self.model_fields_set}
        if "skipped" in given:
            given["skipped"] = frozenset(given["skipped"])
        if self.format != "json":
            given["schemas"] = True
        return Form(**{name: getattr(base, name) for name in _FIELDS} | given, routes=routes)


_FIELDS: Final = (*NAMES.values(), "skipped", "tombstones")
_KNOWN: Final = frozenset(
    name for field in Events.model_fields.values() if (name := field.alias) is not None
)
