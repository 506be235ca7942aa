"""Random expressions of the grammar in ``docs/sql.md``, by the type of their value.

None of them fails on any row, for a row that fails is parked: what is added or multiplied is made
small before, divisors are literals, texts are cast where they are known to be numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from views.table_versions import TableColumn

Columns = dict[str, list[str]]
"""What columns are called in the SQL, by the base of their type."""
_LITERALS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "1", "3", "7", "-2"),
    "number": ("0.0", "1.5", "-2.25", "3.00", "0.10"),
    "text": ("''", "'u'", "'é'", "' '", "'it''s \"q\"'", "'a\\b'", "'12'"),
    "date": ("date '2024-02-29'", "date '1999-12-31'"),
    "timestamp": ("timestamp '2021-01-03 00:00:00'", "timestamp '1969-12-31 23:59:59.5'"),
    "timestamptz": ("timestamptz '2021-01-03 00:00:00+00'",),
    "uuid": ("uuid '6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01'",),
}
_PATTERNS: Final = ("'%'", "'u%'", "'%é'", "'_'", "'%\\%%'", "'%q%'", "''", "'a\\\\%'", "'%s'")
_TEMPLATES: Final = ("'YYYY-MM-DD'", "'Mon FMDD, YY'", "'IYYY-IW-ID'", "'\"q\" FMDay DDD'")
_TEMPLATES_OF_DAY: Final = ("'HH24:MI:SS.US'", "'FMHH12.MI'")
_INTERVALS: Final = ("'1 day'", "'1 month'", "'90 minutes'", "'2 weeks'", "'1 year'")
"""Not beyond the years 1 and 9999, which is as far as what compares them reads."""
_COMPARED: Final = ("=", "<>", "<", "<=", ">", ">=")
_KINDS: Final = {"int2": "int", "int4": "int", "int8": "int", "numeric": "number"}


def columns_of(columns: Iterable[TableColumn], alias: str) -> Columns:
    """The columns of a table by what expressions take them for."""
    found: Columns = {}
    for column in columns:
        kind = _KINDS.get(column.type.name, str(column.type))
        found.setdefault(kind, []).append(f"{alias}.{column.name}")
    return found


class Expressions:
    """Of some columns. ``depth`` is how many steps an expression may still go down."""

    def __init__(self, random: Random, columns: Columns) -> None:
        self._random, self._columns = random, columns

    def any(self, depth: int = 3) -> str:
        """Of a type that a view may show."""
        kinds = ("int", "number", "text", "bool", "date", "timestamp", "timestamptz", "shown")
        return self.of(self._random.choice(kinds), depth)

    def of(self, kind: str, depth: int) -> str:
        """Of a type: a column or a literal where it may go no further."""
        if kind == "shown":
            return self._shown()
        if depth <= 0 or kind == "uuid" or self._random.random() < 0.2:
            return self._leaf(kind)
        if kind != "bool" and self._random.random() < 0.25:
            return self._chosen(kind, depth - 1)
        made = {"int": self._int, "number": self._number, "text": self._text, "bool": self._bool,
                "date": self._date, "timestamp": self._timestamp,
                "timestamptz": self._timestamptz}  # fmt: skip
        return made[kind](depth - 1)

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _column(self, kind: str) -> str | None:
        held = self._columns.get(kind)
        return self._random.choice(held) if held else None

    def _leaf(self, kind: str) -> str:
        column = self._column(kind)
        if column is None or (self._random.random() < 0.15 and kind != "bool"):
            return self._one(*_LITERALS[kind]) if kind != "bool" else self._test("int", 0)
        return column

    def _chosen(self, kind: str, depth: int) -> str:
        """What is one of several values."""
        one, two, test = self.of(kind, depth), self.of(kind, depth), self._bool(depth)
        choices = [
            f"case when {test} then {one} else {two} end",
            f"case when {test} then {one} when {self._bool(depth)} then {two} end",
            f"coalesce({one}, {two})",
            f"nullif({one}, {two})",
        ]
        if kind not in ("text", "uuid"):
            choices += [f"greatest({one}, {two})", f"least({one}, {two})"]
        return self._one(*choices)

    def _small(self, depth: int) -> str:
        """An integer that can be computed with."""
        column = self._column("int")
        choices = [f"length({self.of('text', depth)})", self._one("1", "2", "-3")]
        choices += [f"({column} % {self._one('7', '50')})"] * 3 if column else []
        return self._one(*choices)

    def _int(self, depth: int) -> str:
        small, more, of = self._small(depth), self._small(depth), self.of
        field = self._one("year", "month", "dow", "doy", "week")
        return self._one(
            f"({of('int', depth)} % {self._one('5', '2', '100')})",
            f"({of('int', depth)} / {self._one('2', '3', '10')})",
            f"({small} {self._one('+', '-', '*')} {more})",
            f"(- {small})",
            f"abs({small})",
            f"strpos({of('text', depth)}, {self._one(*_LITERALS['text'])})",
            f"position({self._one(*_LITERALS['text'])} in {of('text', depth)})",
            f"({of('date', 0)} - date '2000-01-01')",
            f"extract({field} from {of('date', 0)})::int",
            f"extract({self._one('hour', 'minute', 'isodow')} from {of('timestamp', 0)})::int",
            f"({self._bool(depth)})::int",
            f"({small})::smallint",
            f"({of('int', depth)})::bigint",
            *self._of_array("cardinality({})", "array_length({}, 1)"),
        )

    def _number(self, depth: int) -> str:
        one, two = self.of("number", 0), self.of("number", 0)
        json, places = self._column("jsonb"), self._one("0", "1", "3")
        choices = [
            f"({self.of('number', depth)} {self._one('+', '-')} {two})",
            f"({one} * {two})",
            f"({one} % {self._one('1.5', '0.7', '3')})",
            f"(- {one})",
            f"abs({self.of('number', depth)})",
            f"round({self.of('number', depth)}, {places})",
            f"{self._one('ceil', 'floor', 'round')}({self.of('number', 0)} * 1.0)",
            f"({self._small(depth)})::numeric(12,2)",
            f"({one})::numeric(20,1)",
            f"extract({self._one('second', 'epoch')} from {self.of('timestamp', 0)})",
            f"extract(epoch from {self.of('timestamp', 0)} - {self.of('timestamp', 0)})",
            f"trunc({self.of('number', 0)} * 1.0, {places})",
        ]
        choices += [f"({json} ->> 'n')::numeric(12,3)"] if json else []
        return self._one(*choices)

    def _text(self, depth: int) -> str:
        text, more, of = self.of("text", depth), self.of("text", depth), self.of
        literal, count = self._one(*_LITERALS["text"]), self._one("0", "1", "2", "5")
        choices = [
            f"({text} || {more})",
            f"({text} || {self._cast(depth)})",
            f"{self._one('lower', 'upper', 'reverse', 'md5', 'trim', 'ltrim', 'rtrim')}({text})",
            f"{self._one('left', 'right', 'repeat')}({text}, {count})",
            f"substring({text}, {self._one('1', '2', '4')}, {count})",
            f"replace({text}, {literal}, {more})",
            f"translate({text}, 'uvé', {self._one(*_LITERALS['text'])})",
            f"{self._one('lpad', 'rpad')}({text}, {count}, {literal})",
            f"split_part({text}, {self._one(*_LITERALS['text'][1:])}, {self._one('1', '2')})",
            f"trim({self._one('both', 'leading', 'trailing')} 'u \"' from {text})",
            f"concat({text}, {of('int', depth)}, {more})",
            f"concat_ws({literal}, {text}, {self._cast(depth)})",
            self._cast(depth),
            f"({text})::varchar({self._one('1', '3')})",
            *self._parts(),
            f"to_char({of('date', depth)}, {self._one(*_TEMPLATES)})",
            f"to_char({of('timestamp', depth)}, {self._one(*_TEMPLATES, *_TEMPLATES_OF_DAY)})",
            *self._of_array("array_to_string({}, ',')", "array_to_string({}, '', 'é')"),
        ]
        return self._one(*choices)

    def _cast(self, depth: int) -> str:
        kind = self._one("int", "number", "bool", "date", "timestamp", "uuid")
        # Of what is computed it is refused where values have digits of their own: coalesce(n, 0).
        return f"({self._leaf(kind) if kind == 'number' else self.of(kind, depth)})::text"

    def _of_array(self, *calls: str) -> list[str]:
        array = self._column("text[]")
        return [call.replace("{}", array) for call in calls] if array else []

    def _parts(self) -> list[str]:
        """Texts in other values."""
        json, array = self._column("jsonb"), self._column("text[]")
        found = [f"{array}[{self._one('1', '2', '3')}]"] if array else []
        if json:
            steps = ("->> 't'", "->> 'n'", "#>> '{o,1,t}'", "-> 'o' ->> 't'", "->> 0", "->> -1")
            found += [f"({json} {self._one(*steps)})", f"jsonb_typeof({json})", f"({json})::text"]
        return found

    def _test(self, kind: str, depth: int) -> str:
        """A comparison of values of a type."""
        signs = _COMPARED[:2] if kind in ("text", "uuid") else _COMPARED
        one, two, three = (self.of(kind, depth) for _ in range(3))
        literals = ", ".join(self._random.sample(_LITERALS[kind], min(2, len(_LITERALS[kind]))))
        word = self._one("", "not ")
        choices = [
            f"({one} {self._one(*signs)} {two})",
            f"({one} is {word}null)",
            f"({one} is {word}distinct from {two})",
            f"({one} {word}in ({literals}{self._one('', ', null')}))",
        ]
        if len(signs) > 2:
            choices += [f"({one} {word}between {two} and {three})"]
        return self._one(*choices)

    def _bool(self, depth: int) -> str:
        kind = self._one(*_LITERALS)
        if depth <= 0:
            return self._column("bool") or self._test(kind, 0)
        one, two, json = self.of("bool", depth), self.of("bool", depth - 1), self._column("jsonb")
        choices = [
            *[self._test(kind, depth - 1) for _ in range(3)],
            f"({one} {self._one('and', 'or')} {two})",
            f"({one} {self._one('and', 'or')} {two})",
            f"(not {one})",
            f"({one} is {self._one('', 'not ')}{self._one('true', 'false')})",
            f"coalesce({one}, {two})",
            f"({self.of('text', depth)} {self._one('', 'not ')}{self._one('like', 'ilike')}"
            f" {self._one(*_PATTERNS)})",
            f"starts_with({self.of('text', depth)}, {self._one(*_LITERALS['text'])})",
            f"({self.of('int', depth)} = any(array[{self._one('1, 3', '0, null')}]))",
            *self._of_array(
                f"({self.of('text', depth)} = any({{}}))", f"({self._leaf('text')} <> all({{}}))"
            ),
        ]
        choices += [f"({json} ? 'n')", f"({json} @> '{{\"n\": 3}}')"] if json else []
        return self._one(*choices)

    def _date(self, depth: int) -> str:
        day, moment = self.of("date", 0), self.of("timestamp", depth - 1)
        zoned = self.of("timestamptz", 0)
        return self._one(
            f"({day} {self._one('+', '-')} {self._one('1', '9')})",
            f"({moment})::date",
            f"({zoned} at time zone 'UTC')::date",
        )

    def _timestamp(self, depth: int) -> str:
        unit = self._one("year", "quarter", "month", "week", "day", "hour", "minute", "second")
        return self._one(
            f"date_trunc('{unit}', {self.of('timestamp', 0)})",
            f"({self.of('date', depth)})::timestamp",
            f"({self.of('timestamptz', 0)} at time zone 'UTC')",
            f"(greatest({self.of('timestamp', 0)}, timestamp '0100-01-31 00:00:00')"
            f" - interval {self._one(*_INTERVALS)})",
            f"(least({self.of('date', depth)}, date '9900-01-31') + interval"
            f" {self._one(*_INTERVALS)})",
        )

    def _timestamptz(self, depth: int) -> str:
        return f"({self.of('timestamp', depth)} at time zone 'UTC')"

    def _shown(self) -> str:
        """What is shown and no more computed with: parts of JSON, and floats."""
        json, number = self._column("jsonb"), self._column("float8")
        choices = [f"({self.of('int', 0)})::float8", f"({self.of('number', 0)})::float8"]
        field = self._one("year", "second", "epoch")
        choices += [f"date_part('{field}', {self.of('timestamp', 0)})"]
        if json:
            choices += [json, f"({json} -> 'o')", f"coalesce({json} #> '{{o,1}}', '[]')"]
        if number:
            halves = (f"({number} / 2)", f"({number} * 0.5::float8)", f"(- {number})")
            choices += [number, *halves, f"abs({number})", f"coalesce({number}, 1.5::float8)"]
        return self._one(*choices)
