"""``[[source.routes]]``: which topic tables go to, other than ``<source>.<schema>.<table>``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from cdc.config.contents import Added, refuse_unfit_settings
from cdc.config.dotted import flat
from cdc.config.stores import Section
from cdc.errors import one_line
from cdc.routes.content import EVENTS, ROWS, Content, Deletes, TopicContent
from cdc.routes.patterns import parse_pattern
from cdc.routes.route import KEY_FIELD, PLAIN, Route, known_variables, merges, variables
from cdc.topics import kafka_name

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RouteSettings(Section):
    """One route; the first that is of a table holds."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    topic: str = Field(default="", min_length=1)
    tables: tuple[str, ...] = ()
    match: str = ""
    key_field: str | None = None
    distinct_keys: bool = False
    partition_by: tuple[str, ...] = ()
    content: Content = "event"
    added: Added = Field(default="", alias="add.fields")
    headers: Added = Field(default="", alias="add.headers")
    header_prefix: str = Field(default="__", alias="add.headers.prefix")
    rows_topic: str = Field(default="", min_length=1)
    deletes: Deletes = Field(default="tombstone", alias="delete.tombstone.handling.mode")

    @model_validator(mode="before")
    @classmethod
    def _names_have_dots(cls, value: Any) -> Any:
        """TOML reads ``add.fields`` as a name in a table."""
        return flat(value, _DOTTED) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _is_of_tables(self) -> RouteSettings:
        if not self.tables and not self.match:
            raise ValueError(
                'is of no table: set tables = ["public.orders_*"], or match to an expression over '
                "schema.table"
            )
        for text in self.tables:
            try:
                parse_pattern(text)
            except ValueError as error:
                raise ValueError(f"tables: {error}") from None
        return self

    @model_validator(mode="after")
    def _says_something(self) -> RouteSettings:
        if not (self.topic or self.rows_topic or "content" in self.model_fields_set):
            raise ValueError(
                "says nothing of its tables: set topic, content for what their topics hold, or "
                "rows_topic"
            )
        return self

    @model_validator(mode="after")
    def _rows_have_what_they_take(self) -> RouteSettings:
        if self.rows_topic and self.content != "event":
            raise ValueError(f'rows_topic: stands beside events: remove content = "{self.content}"')
        if self.rows_topic == self.template:
            raise ValueError("rows_topic: is the topic of the events: choose another name")
        has_rows = bool(self.rows_topic) or self.content == "row"
        way = 'set content = "row" or rows_topic'
        refuse_unfit_settings(has_rows, self, way)
        return self

    @model_validator(mode="after")
    def _topic_is_a_name(self) -> RouteSettings:
        try:
            known = known_variables(self.match)
        except re.error as error:
            raise ValueError(f"match: is not a regular expression: {error}") from None
        except ValueError as error:
            raise ValueError(f"match: {error}") from None
        _refuse_template("topic", self.template, known)
        _refuse_template("rows_topic", self.rows_topic, known)
        return self

    @model_validator(mode="after")
    def _keys_are_told_apart_one_way(self) -> RouteSettings:
        if self.key_field is None:
            return self
        if self.distinct_keys:
            raise ValueError(
                one_line("key_field: distinct_keys says that no field is needed", "remove one")
            )
        if not _FIELD.fullmatch(self.key_field):
            raise ValueError(
                f"key_field: {self.key_field!r} is not a name of letters, digits and underscores: "
                "to have none set distinct_keys = true, if no two tables ever have the same key"
            )
        return self

    def _content(self, content: Content) -> TopicContent:
        return TopicContent(content, self.added, self.headers, self.header_prefix, self.deletes)

    @property
    def template(self) -> str:
        """The topic's name, Debezium's without a setting."""
        return self.topic or PLAIN

    @property
    def route(self) -> Route:
        """What it says, with what it leaves out."""
        field = self.key_field or ""
        templates = (self.template, self.rows_topic) if self.rows_topic else (self.template,)
        if not self.distinct_keys and any(merges(one, self.tables) for one in templates):
            field = field or KEY_FIELD
        return Route(
            self.template, self.tables, self.match, field, self.distinct_keys, self.partition_by,
            EVENTS if self.rows_topic else self._content(self.content),
            self.rows_topic,
            self._content("row") if self.rows_topic else ROWS,
        )  # fmt: skip


def _refuse_template(setting: str, template: str, known: Sequence[str]) -> None:
    try:
        named = variables(template)
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None
    if unknown := [name for name in named if name not in known]:
        braced = ", ".join(f"{{{name}}}" for name in known)
        raise ValueError(f"{setting}: {{{unknown[0]}}} is not known: known are {braced}")
    plain = re.sub(r"\{\w*\}", "", template)
    if kafka_name(plain) != plain:
        raise ValueError(
            f"{setting}: {plain!r} has characters that Kafka does not allow in a name: letters, "
            "digits, dots, hyphens and underscores are allowed"
        )


_DOTTED = frozenset(
    name for field in RouteSettings.model_fields.values() if (name := field.alias) is not None
)
