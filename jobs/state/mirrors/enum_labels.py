"""The labels of an enum as the source has them and as it had them, and what leads there.

A label is known by its number, the OID of its row in ``pg_enum``, which it keeps when it is
renamed. No event tells of that, and events from before have the old name. What the labels are and
were is kept in the comment of the enum in the state database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from cdc.source.postgres import Connection, identifier, literal
from jobs.state.mirrors.table import TYPE_SCHEMA

_ENUMS: Final = b"""
select t.typname, pg_catalog.obj_description(t.oid, 'pg_type')
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where t.typtype = 'e' and n.nspname = %s
"""
_FORMER: Final = "former"


class EnumLabels(NamedTuple):
    """``labels`` in their order, by their numbers. ``former`` has the number by each name that a
    label had before; none of these is a label now."""

    labels: Mapping[int, str]
    former: Mapping[str, int] = {}

    @property
    def comment(self) -> str:
        """What the comment of the enum says, as JSON."""
        return json.dumps({**self.labels, **({_FORMER: self.former} if self.former else {})})

    @property
    def now(self) -> dict[str, str]:
        """What labels are called now, by the names that they had."""
        return {name: self.labels[number] for name, number in self.former.items()}


class Relabelled(NamedTuple):
    """``is_unclear``: a name was one label's and is another's, so what an event means by it depends
    on when it was written. ``is_other``: the enum was dropped and made again."""

    labels: EnumLabels
    is_renamed: bool
    is_unclear: bool
    is_other: bool


def noted_labels(comment: str | None) -> EnumLabels:
    """What ``EnumLabels.comment`` has kept."""
    found = json.loads(comment or "{}")
    former = found.pop(_FORMER, {})
    return EnumLabels({int(number): label for number, label in found.items()}, former)


def noted_enums(conn: Connection) -> dict[str, EnumLabels]:
    """The enums of the state database, by what they are called there, as SQL. Those that made way
    for others have no comment that counts, and are not among them."""
    rows = conn.execute(_ENUMS, (TYPE_SCHEMA,)).fetchall()
    return {
        f"{TYPE_SCHEMA}.{identifier(name)}": noted_labels(comment)
        for name, comment in rows
        if comment
    }


def relabelled(held: EnumLabels, wanted: Mapping[int, str]) -> Relabelled:
    """What became of an enum's labels."""
    if held.labels.keys() - wanted.keys():
        return Relabelled(EnumLabels(wanted), is_renamed=True, is_unclear=True, is_other=True)
    names = dict(held.former) | {label: number for number, label in held.labels.items()}
    renamed = any(wanted[number] != label for number, label in held.labels.items())
    unclear = any(names.get(label, number) != number for number, label in wanted.items())
    if unclear:
        return Relabelled(EnumLabels(wanted), is_renamed=True, is_unclear=True, is_other=False)
    now = set(wanted.values())
    former = {name: number for name, number in names.items() if name not in now}
    return Relabelled(EnumLabels(wanted, former), renamed, is_unclear=False, is_other=False)


def label_statements(called: str, held: Mapping[int, str], wanted: Mapping[int, str]) -> list[str]:
    """What makes the labels of an enum those of the source, in its order."""
    renamed = [(held[n], label) for n, label in wanted.items() if held.get(n, label) != label]
    statements = []
    if any(now in held.values() for _, now in renamed):  # names may have been exchanged
        between = [f"~{number}" for number, _ in enumerate(renamed)]
        statements += [
            _renaming(called, was, to) for (was, _), to in zip(renamed, between, strict=True)
        ]
        renamed = [(by, now) for by, (_, now) in zip(between, renamed, strict=True)]
    statements += [_renaming(called, was, now) for was, now in renamed]
    labels = list(wanted.values())
    there = {label for number, label in wanted.items() if number in held}
    for place, label in enumerate(labels):
        if label in there:
            continue
        behind = next((one for one in labels[place + 1 :] if one in there), None)
        where = "" if behind is None else f" before {literal(behind)}"
        there.add(label)
        statements.append(f"alter type {called} add value {literal(label)}{where}")
    return statements


def _renaming(called: str, was: str, now: str) -> str:
    return f"alter type {called} rename value {literal(was)} to {literal(now)}"
