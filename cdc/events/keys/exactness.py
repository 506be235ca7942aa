"""Which values a key column has exactly in a form. Pure.

Consumers tell rows apart by their keys alone. A mode that makes one key of two values, null of NaN
or the same millisecond of two timestamps, would mix two rows. So a key is checked value by value,
where its column's mode may lose anything, and what it does not hold stops whoever writes it.
Values outside of keys are as Debezium has them; those that become null are told of (``Unheld``).
A ``timetz`` is in UTC in every form: its zone is no reason to stop, and ``headwater check`` warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from cdc.errors import SourceError
from cdc.events.form import Form
from cdc.events.values.containers import array_encoder
from cdc.events.values.decimals import NOT_FINITE
from cdc.events.values.encoder import TEXT_KINDS
from cdc.events.values.epochs import interval_number, time_unit, timestamp_number
from cdc.events.values.scalars import money_encoder
from cdc.events.values.text import Encoder
from cdc.protocol.relation import Column, Relation, TypeInfo

Holds = Callable[[bytes], bool]
"""Whether a value, in PostgreSQL's text, is held exactly."""

_DIGITS: Final = b"0123456789.-"
_OF_SECONDS: Final = b"0123456789-: "
"""Characters of a moment without a fraction of a second."""
_EXACT_LENGTH: Final = 15
"""Of so many digits a double keeps each number apart."""
_MS: Final = 3
_MILLISECONDS, _MICROSECONDS = 10**3, 10**6
_EDGES: Final = (b"%d" % ((1 << 63) - 1), b"%d" % -(1 << 63))
_INFINITE: Final = (b"infinity", b"-infinity")


Note = Callable[[Iterable[bytes]], None]
Unheld = Callable[[str, str, int], None]
"""Told of values that became null: table, column, how many."""


class InexactKeyError(SourceError):
    """A key that does not hold its values."""


class Guard(NamedTuple):
    """Of a column whose mode may lose something: ``loses`` says what, ``instead`` what to set.

    Texts of only the characters of ``plain``, and of no more than ``longest``, are all held: for a
    look at a whole column.
    """

    holds: Holds
    loses: str
    instead: str
    plain: bytes = b""
    longest: int | None = None
    is_null: bool = False
    """Whether what is not held becomes null."""
    keeps: Holds | None = None
    """Outside of keys, if it is not ``holds``."""


def guard_of(column: Column, form: Form) -> Guard | None:
    """None of a column of which the form holds every value."""
    return _guard(column.type, column.typmod, form)


def key_guards(relation: Relation, form: Form) -> dict[str, Guard]:
    """The columns of a table's key of which the form does not hold every value."""
    columns = {column.name: column for column in relation.columns}
    found = {name: guard_of(columns[name], form) for name in relation.key if name in columns}
    return {name: guard for name, guard in found.items() if guard is not None}


def guarded_key(relation: Relation, name: str, guard: Guard, encode: Encoder) -> Encoder:
    """The encoder of a key's column, which raises ``InexactKeyError`` for what is not held."""

    def exact(text: bytes) -> bytes:
        if not guard.holds(text):
            raise InexactKeyError(
                f"{relation.name}: the key column {name} has a value that a key cannot hold: "
                f"{guard.loses}, so that rows would share a key",
                f"{guard.instead}, or change the row in the source; then run `headwater init "
                "--again` (docs/event-modes.md, Keys)",
            )
        return encode(text)

    return exact


def noted(relation: Relation, column: Column, form: Form, unheld: Unheld | None) -> Note | None:
    """What looks at a column's values before they are encoded, and tells of those that the form has
    nothing for; None where there are none, or nobody asks. A key's are refused anyway."""
    guard = None if column.name in relation.key else guard_of(column, form)
    if unheld is None or guard is None or not guard.is_null:
        return None
    table, name, holds = relation.name, column.name, guard.keeps or guard.holds

    def note(values: Iterable[bytes]) -> None:
        if lost := sum(not holds(text) for text in values):
            unheld(table, name, lost)

    return note


def _guard(type: TypeInfo, typmod: int, form: Form) -> Guard | None:
    if type.kind in TEXT_KINDS:
        return None
    if type.element is not None:
        return _of_array(type, type.element, typmod, form)
    match type.base:
        case "numeric" | "money" if form.decimals != "string":
            return _of_decimal(type.base, typmod, form)
        case "timestamp" | "time":
            return _of_moment(type.base, typmod, form)
        case "interval" if form.intervals == "numeric":
            loses = "interval.handling.mode = numeric makes months days, and ends at 64 bits"
            return Guard(_is_of_days, loses, 'set interval.handling.mode = "string"')
    return None


def _of_array(type: TypeInfo, element: TypeInfo, typmod: int, form: Form) -> Guard | None:
    of_element = _guard(element, element.typmod if element.typmod != -1 else typmod, form)
    if of_element is None and not form.schemas:
        return None
    dimensions = "an array of a schema has no dimensions"
    instead = "use another column type" if form.registered else "set schemas = false"
    within = Guard(lambda _: True, dimensions, instead)
    if of_element is not None:
        within = of_element

    def each(text: bytes) -> bytes:
        if not within.holds(text):
            raise _InexactError
        return b"0"

    read = array_encoder(type.name, each, type.delimiter.encode())

    def keeps(text: bytes) -> bool:
        try:
            read(text)
        except _InexactError:
            return False
        return True

    def holds(text: bytes) -> bool:
        has_bounds = text[:1] == b"[" or text[:2] == b"{{"
        return not (form.schemas and has_bounds) and keeps(text)

    loses = within.loses
    if form.schemas and of_element is not None:
        loses += f", and {dimensions}"
    return Guard(holds, loses, within.instead, is_null=within.is_null, keeps=keeps)


class _InexactError(Exception):
    """An element is not held."""


def _of_decimal(base: str, typmod: int, form: Form) -> Guard | None:
    instead = 'set decimal.handling.mode = "string"'
    if form.decimals == "precise":
        if base == "money":
            return None
        loses = "decimal.handling.mode = precise has nothing for NaN and infinity"
        return Guard(lambda text: text not in NOT_FINITE, loses, instead, _DIGITS, is_null=True)
    loses = "decimal.handling.mode = double does not have all of its digits"
    if base == "numeric":
        return Guard(_is_double, loses, instead, _DIGITS, _EXACT_LENGTH)
    as_text = money_encoder(base, typmod)
    return Guard(lambda text: _is_double(as_text(text)[1:-1]), loses, instead)


def _is_double(text: bytes) -> bool:
    """Whether a number is the one that its nearest double is printed as: no other one is."""
    if text in NOT_FINITE or len(text) <= _EXACT_LENGTH:
        return True
    try:
        number = Decimal(text.decode())
    except ArithmeticError:
        return True  # no number: the encoder says so
    return Decimal(repr(float(number))) == number


def _of_moment(base: str, typmod: int, form: Form) -> Guard | None:
    unit = time_unit(base, form.times, typmod)
    if unit is None:
        return None
    mode = f"time.precision.mode = {form.times}"
    instead = f'set time.precision.mode = "{"isostring" if base == "timestamp" else "adaptive"}"'
    if unit.per_s == _MILLISECONDS:
        if 0 <= typmod <= _MS:
            return None
        loses = f"{mode} leaves no more than milliseconds"
        return Guard(_is_of_milliseconds, loses, instead, _OF_SECONDS)
    if base == "time":
        return None
    encode = timestamp_number(base, unit)
    loses = f"{mode} has no timestamps beyond 64 bits"

    def fits(text: bytes) -> bool:
        if unit.per_s == _MICROSECONDS and text[4:5] == b"-":
            return True
        found = encode(text)
        return found != b"null" and (found not in _EDGES or text in _INFINITE)

    return Guard(fits, loses, instead, is_null=True)


def _is_of_milliseconds(text: bytes) -> bool:
    _, _, fraction = text.partition(b".")
    return not fraction.partition(b" ")[0][_MS:].strip(b"0")


def _is_of_days(text: bytes) -> bool:
    """PostgreSQL compares a month as 30 days; the number of microseconds has 30.4375."""
    if text in _INFINITE:
        return True
    days = text.partition(b"T")[0]
    return b"Y" not in days and b"M" not in days and _interval(text) not in _EDGES


_interval: Final = interval_number("interval")
