"""Conditions against the columns of a table: what can be decided exactly is taken. Pure.

Values are compared as they are published. What cannot be decided exactly is refused when the
condition is declared, not answered by guessing later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Final
from uuid import UUID

from cdc.protocol.relation import Column, Relation
from headwater.conditions.condition import (
    BEFORE,
    EQUALITY,
    Compare,
    Comparison,
    Condition,
    ConditionError,
    IsNull,
    Like,
    Literal,
    Reference,
    Unfit,
    replaced,
)
from headwater.conditions.decide import single

OPERATIONS: Final = ("c", "u", "d")
OP: Final = Reference("", "op")
_LARGE_BYTES: Final = 20
"""PostgreSQL moves no value out of its row, so that an update may leave it out, that is not larger
than the pointer which it leaves behind."""
_NUMBERS: Final = frozenset(("int2", "int4", "int8", "oid", "float4", "float8", "numeric"))
_CHARACTERS: Final = frozenset(("text", "varchar", "name"))
_TEXTS: Final = _CHARACTERS | {"uuid", "enum"}
_COMPARABLE: Final = (
    "compare numbers with numbers, text, enums and UUIDs by =, <>, is distinct from, in and (text "
    "alone) like, booleans by = and <> with true or false, and any column with null"
)
Found = Callable[[Reference], Column]


def fitted_to_rows(condition: Condition, relation: Relation) -> Condition:
    """A filter of rows, whose columns stand alone. Raises ``ConditionError`` for what does not fit
    the table."""
    if not relation.key:
        message = f"{relation.name} has no key, so nobody can be told which row leaves a filter"
        raise ConditionError(message, "leave the filter out")

    def found(reference: Reference) -> Column:
        if reference.image:
            raise ConditionError(
                f"at character {reference.at}: a filter is about rows, which have no {reference}",
                f"write {reference.name}",
            )
        return _column(reference, relation)

    return replaced(condition, partial(_fitted, relation, found))


def fitted_to_changes(condition: Condition, relation: Relation, op: str = "") -> Condition:
    """A condition over ``before.COLUMN``, ``after.COLUMN`` and ``op``. Raises as for rows; but not
    for the events of one ``op``, which are there: what does not fit is not decided then."""

    def found(reference: Reference) -> Column:
        if not reference.image:
            raise ConditionError(
                f"at character {reference.at}: {reference.name} is of no row",
                f"write after.{reference.name}, before.{reference.name}, or op",
            )
        column = _column(reference, relation)
        is_known = relation.replica_identity == "f" or reference.name in relation.key
        is_known |= op == "c"  # an insert has no old row, whose columns are null then
        if reference.image == BEFORE and not is_known:
            raise ConditionError(
                f"at character {reference.at}: {reference} is not known: {relation.name} has not "
                "REPLICA IDENTITY FULL, so a change has no old values but those of the key",
                f"ALTER TABLE {relation.name} REPLICA IDENTITY FULL, or compare after alone",
            )
        return column

    def fitted(comparison: Comparison) -> Comparison:
        if isinstance(comparison, Compare) and comparison.left[:2] == OP[:2]:
            return _of_operation(comparison)
        try:
            return _fitted(relation, found, comparison)
        except ConditionError as error:
            if not op:
                raise
            return Unfit(str(error))

    return replaced(condition, fitted)


def _of_operation(comparison: Compare) -> Compare:
    if comparison.sign in EQUALITY and comparison.right in OPERATIONS:
        return comparison
    raise ConditionError(
        f"at character {comparison.left.at}: op is c (insert), u (update) or d (delete)",
        "write op = 'c', or op in ('c', 'u')",
    )


def _column(reference: Reference, relation: Relation) -> Column:
    columns: Mapping[str, Column] = {column.name: column for column in relation.columns}
    column = columns.get(reference.name)
    if column is None:
        raise ConditionError(
            f"at character {reference.at}: {relation.name} has no column {reference.name}",
            f"known: {', '.join(columns)}",
        )
    if column.treatment is not None:
        raise ConditionError(
            f"at character {reference.at}: {column.name} is a treated column",
            "compare another column",
        )
    return column


def _fitted(relation: Relation, found: Found, comparison: Comparison) -> Comparison:
    match comparison:
        case IsNull(of):
            found(of)
            return comparison
        case Like(of, _):
            column = found(of)
            if column.type.base not in _CHARACTERS or column.collation:
                raise _incomparable(of, column, "like")
            if relation.replica_identity != "f":
                raise _left_out(of, "compare it by = or <>")
            return comparison
        case Compare(left, sign, Reference() as right):
            one, other = found(left), found(right)
            _fit_columns(relation, left, one, sign, right, other)
            return comparison._replace(
                left=_typed(left, one),
                right=_typed(right, other),
                is_numeric=one.type.base in _NUMBERS,
            )
        case Compare(left, sign, literal):
            assert not isinstance(literal, Reference), "the case above has those"
            column = found(left)
            value = _literal(left, column, sign, literal)
            is_long = isinstance(value, str) and len(value.encode()) > _LARGE_BYTES
            is_short = column.type.base == "uuid"
            if is_long and relation.replica_identity != "f" and not is_short:
                raise _left_out(left, f"compare with at most {_LARGE_BYTES} bytes")
            return comparison._replace(left=_typed(left, column), right=value)
        case Unfit():
            return comparison


def _typed(of: Reference, column: Column) -> Reference:
    return of._replace(is_single=column.type.base == "float4")


def _literal(of: Reference, column: Column, sign: str, literal: Literal) -> Literal:
    """As the column publishes its values."""
    base = column.type.base
    if isinstance(literal, bool) and base == "bool" and sign in EQUALITY:
        return literal
    if isinstance(literal, Decimal) and base in _NUMBERS:
        if base == "float4" and sign in EQUALITY and not _is_single(literal):
            raise ConditionError(
                f"at character {of.at}: {of} is of type real, which has no value {literal}",
                "compare by < and >, or with a number that it has, such as 0.5",
            )
        return literal
    if isinstance(literal, str) and base in _TEXTS and not column.collation:
        if sign not in EQUALITY:
            raise _unordered(of)
        return _uuid(of, literal) if base == "uuid" else literal
    raise _incomparable(of, column, sign)


def _is_single(literal: Decimal) -> bool:
    try:
        return literal == Decimal(single(literal))
    except OverflowError:
        return False


def _fit_columns(
    relation: Relation, left: Reference, one: Column, sign: str, right: Reference, other: Column
) -> None:
    bases = {one.type.base, other.type.base}
    if bases <= _NUMBERS:
        pass
    elif one.collation or other.collation:
        raise _incomparable(left, one, sign)
    elif bases <= _CHARACTERS or (
        one.type == other.type and (bases <= _TEXTS or bases == {"bool"})
    ):
        if sign not in EQUALITY:
            raise _unordered(left)
    else:
        raise ConditionError(
            f"at character {left.at}: {left} is of type {one.type.name}, {right} of "
            f"{other.type.name}, which are not compared by {sign}",
            _COMPARABLE,
        )
    if bases <= _CHARACTERS and relation.replica_identity != "f":
        raise _left_out(left, "compare with a literal")


def _unordered(of: Reference) -> ConditionError:
    return ConditionError(
        f"at character {of.at}: {of} is no number: its order is that of a collation or a type",
        "use = or <>",
    )


def _incomparable(of: Reference, column: Column, sign: str) -> ConditionError:
    return ConditionError(
        f"at character {of.at}: {of} is of type {column.type.name}, which is not compared with "
        f"that by {sign}",
        _COMPARABLE,
    )


def _left_out(of: Reference, instead: str) -> ConditionError:
    return ConditionError(
        f"at character {of.at}: an update may leave out a large value of {of}",
        f"set REPLICA IDENTITY FULL for the table, or {instead}",
    )


def _uuid(of: Reference, text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ConditionError(
            f"at character {of.at}: {of} is a UUID, which is compared with what is none",
            "write all of its 32 digits",
        ) from None
