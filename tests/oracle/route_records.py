"""Events of tables that share a topic, for what ``ByLogicalTableRouter`` makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cdc.events.change_encoder import change_encoder
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.form import DEBEZIUM, OURS
from cdc.events.rows import RowEncoder
from cdc.protocol.messages import Values
from cdc.protocol.relation import Column, Relation
from cdc.routes.route import Route
from tests.support.events.random_frames import base

_MATCH: Final = r"public\.(\w+)_\d+"
_AT: Final = Transaction(1000, 1_700_000_000_123_456, 77, 990)
_FORMS: Final = {"ours": replace(OURS, schemas=True), "preset": DEBEZIUM}
_KEYS: Final[dict[str, Sequence[str]]] = {"one": ("int4",), "two": ("text", "int8"), "none": ()}


class Case(NamedTuple):
    """A record as it is without a route, and the topic and the key that our route gives it; the
    value is empty for a tombstone, keys are for a table without one."""

    name: str
    settings: str
    plain: str
    key: bytes
    value: bytes
    topic: str
    routed: bytes


def cases() -> Iterator[Case]:
    """Events and tombstones, with the field's name set and without, and with keys left alone."""
    for form_name, form in _FORMS.items():
        for keyed, types in _KEYS.items():
            for field in ("__table", "", "__dbz__physicalTableIdentifier"):
                settings = r"topic.regex=(.*)\.public\.(.*)_\d+;topic.replacement=$1.$2"
                settings += f";key.field.name={field}" if field == "__table" else ""
                settings += "" if field else ";key.enforce.uniqueness=false"
                table = f"{keyed}_1"
                columns = tuple(
                    Column(f"k{i}", base(kind), -1, True, False) for i, kind in enumerate(types)
                )
                shape = Relation(
                    7, "public", table, "f", (*columns, Column("a", base("text"), -1, False)),
                    tuple(one.name for one in columns),
                )  # fmt: skip
                row: Values = [*(b"7" for _ in types), b"x"]
                route = Route("{source}.{1}", match=_MATCH, key_field=field)
                routed = replace(form, routes=(route,))
                key = RowEncoder(shape, form, "s").key(row) or b""
                ours = RowEncoder(shape, routed, "s").key(row) or b""
                events = change_encoder(shape, SourceContext("1", "s", "d", form))
                events.begin(_AT)
                image = events.rows.row(row)
                value = events.value(b"null", image, b'"c"', 10, 3, clock(5_000_007))
                topic = routed.place("s", "public", table).topic
                name = f"{form_name} {keyed} {field or 'left alone'}"
                plain = f"s.public.{table}"
                yield Case(f"{name} c", settings, plain, key, value, topic, ours)
                yield Case(f"{name} tombstone", settings, plain, key, b"", topic, ours)
