"""What the columns of a view's key are: of equal values a store has to see one text.

PostgreSQL groups and joins by equality. Where 1.0 and 1.00 are one key to it, and two to a store,
the row under the other text would stay there. The planner refuses such a column of a table; what an
expression gives, and under which collation, only PostgreSQL knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cdc.errors import ViewError
from cdc.source.postgres import Connection
from jobs.state.views.view_columns import ViewColumn
from jobs.state.views.view_generation import quoted
from views.maintain.mirror import has_one_text
from views.maintain.plan import ViewPlan
from views.maintain.proofs.number_forms import FIELD, ROUNDED
from views.types import from_typmod

_FORMED: Final = {"numeric": (FIELD, ROUNDED), "float8": (FIELD,)}
_TEXTS: Final = frozenset({"text", "varchar", "name"})
_COLLATIONS: Final = """
select c.collisdeterministic, c.collname
from unnest(%s::text[]) with ordinality as named(name, place)
join pg_catalog.pg_collation c on c.oid = named.name::regcollation
order by place
"""


def refuse_keys_of_several_texts(
    conn: Connection, plan: ViewPlan, select: str, columns: Sequence[ViewColumn]
) -> None:
    """Raise ``ViewError`` for a column of the key whose equal values may have different texts.

    ``columns`` describe ``select``, the whole view.
    """
    of_key = [next(column for column in columns if column.name == name) for name in plan.key]
    for name, column in zip(plan.key, of_key, strict=True):
        formed = plan.number_forms[name] in _FORMED.get(column.type.base, ())
        if not (formed or _has_one_text(column)):
            raise ViewError(
                f"views.{plan.name}.key: {name!r} is {column.type.name}, whose equal values can "
                "have different text",
                f"make it text or a number of one form: {name}::text",
            )
    texts = [column.name for column in of_key if column.type.base in _TEXTS]
    for name, deterministic, collation in _collations(conn, texts, select):
        if not deterministic:
            raise ViewError(
                f"views.{plan.name}.key: {name!r} is under the collation {collation}, in which "
                "different texts are equal",
                f'compare it by its bytes: {name} COLLATE "C"',
            )


def _has_one_text(column: ViewColumn) -> bool:
    element = column.type.element.base if column.type.element else None
    return column.type.base == "enum" or has_one_text(
        from_typmod(column.type.base, column.typmod, element)
    )


def _collations(
    conn: Connection, names: Sequence[str], select: str
) -> Iterator[tuple[str, bool, str]]:
    """Of columns of text: the name, whether only the same text is equal to one, the collation."""
    if not names:
        return
    asked = ", ".join(f"pg_catalog.pg_collation_for(k.{quoted(name)})" for name in names)
    # Without a row the arguments still have their collations.
    query = f"select array[{asked}] from (select 1) one left join ({select}) k on false"
    ((collations,),) = conn.execute(query.encode(), prepare=False).fetchall()
    found = conn.execute(_COLLATIONS.encode(), [collations]).fetchall()
    for name, (deterministic, collation) in zip(names, found, strict=True):
        yield name, bool(deterministic), str(collation)
