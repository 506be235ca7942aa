"""Values of events read back, without a server: what Python does for the types SQL cannot read."""

from __future__ import annotations

import json

import pytest

from cdc.events.values.encoder import encoder
from cdc.protocol.relation import TypeInfo
from jobs.state.values.value_forms import filled_text, form, kept_text
from jobs.state.values.value_texts import parse_image, reader, rewritten


def base(name: str, **other: object) -> TypeInfo:
    return TypeInfo(1, "pg_catalog", name, "base", name)._replace(**other)  # type: ignore[arg-type]


def array(element: TypeInfo) -> TypeInfo:
    return TypeInfo(
        2, "pg_catalog", f"_{element.name}", "array", "array", -1, element, element.delimiter
    )


BOX = base("box", delimiter=";")
# A type, its typmod, and a text that PostgreSQL writes.
VALUES = [
    (base("point"), -1, "(1.5,-2)"),
    (base("point"), -1, "(NaN,Infinity)"),
    (base("line"), -1, "{1,-2.5,3e-07}"),
    (base("lseg"), -1, "[(1,2),(3,4.5)]"),
    (base("box"), -1, "(3,4),(1,2)"),
    (base("path"), -1, "((1,2),(3,4))"),
    (base("path"), -1, "[(1,2)]"),
    (base("polygon"), -1, "((1,2),(3,4),(5,6.25))"),
    (base("polygon"), -1, "((1,2))"),
    (base("polygon"), -1, "((1,2),(1,2))"),
    (base("polygon"), -1, "((1,2),(3,4),(1,2))"),
    (base("polygon"), -1, "((0,1),(3,4),(-0,1))"),
    (base("circle"), -1, "<(1,2),3.5>"),
    (base("bit"), 1, "1"),
    (base("bit"), 13, "0000000000001"),
    (base("bit"), 9, "000000000"),
    (base("bit"), -1, "0101"),
    (base("varbit"), 9, ""),
    (base("hstore"), -1, r'"a"=>"1", "b c"=>NULL, "q\"\\"=>"x=>y"'),
    (base("vector"), -1, "[1,2.5,-3e-07]"),
    (base("sparsevec"), -1, "{1:2.5,3:-1}/5"),
    (base("money"), 0, "$12.34"),
    (base("money"), 3, "-$0.05"),
    (array(base("numeric")), -1, "{1.50,NULL,NaN,Infinity,-Infinity}"),
    (array(base("date")), -1, '{2024-02-29,"0044-03-15 BC",12345-01-01,infinity,-infinity}'),
    (array(base("timestamp")), -1, '{"0001-12-31 23:59:59.5 BC"}'),
    (array(base("timestamptz")), 3, '{"2024-02-29 12:00:00.12+00"}'),
    (array(base("bytea")), -1, r'{"\\x00ff","\\x"}'),
    (array(base("bool")), -1, "{t,f,NULL}"),
    (array(BOX), -1, "{(3,4),(1,2);(3,4),(1,2)}"),
    (array(base("jsonb")), -1, r'{"{\"a\": [1, 2]}",null,"null"}'),
    (array(base("bit")), 3, "{101,000}"),
    (array(base("text")), -1, r'[0:1]={"a b",c}'),
    (array(base("int4")), -1, "{{1,2},{NULL,4}}"),
]


def normal(text: str, type: TypeInfo, typmod: int) -> bytes | None:
    """A text in the form that both ways of writing it have in common: that of events."""
    encode = encoder(type, typmod)
    assert encode is not None
    return encode(text.encode())


@pytest.mark.parametrize(("type", "typmod", "text"), VALUES, ids=[t for _, _, t in VALUES])
def test_a_value_is_read_back(type: TypeInfo, typmod: int, text: str) -> None:
    value = normal(text, type, typmod)
    assert value is not None
    image = parse_image(f'{{"v":{value.decode()}}}')
    again = reader(type, typmod)(image["v"])
    if type.element is None and type.base not in ("money", "hstore"):
        assert float_free(again) == float_free(text)
    if type.element is not None and not text.startswith("["):
        again = again.replace("T", " ").replace("Z", "+00" if type.name == "_timestamptz" else "")
    if type.base == "money":
        again = ("-$" + again[1:]) if again.startswith("-") else "$" + again
    assert normal(again, type, typmod) == value


def float_free(text: str) -> str:
    """Without the ways that Python and PostgreSQL write floats differently."""
    return text.replace(".0,", ",").replace(".0)", ")").replace(".0>", ">").replace(".0]", "]")


@pytest.mark.parametrize(
    ("type", "typmod", "value"),
    [
        (base("bit"), 9, "//////8="),
        (base("bytea"), -1, "no base64!"),
        (base("point"), -1, {"x": "1"}),
        (base("box"), -1, "text"),
        (array(base("date")), -1, {"an": "object"}),
        (base("vector"), -1, 5),
    ],
)
def test_what_is_not_of_the_form_is_an_error(type: TypeInfo, typmod: int, value: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        reader(type, typmod)(value)


HSTORE = base("hstore")


@pytest.mark.parametrize(
    ("type", "text", "kept"),
    [
        (HSTORE, r'"a"=>"1", "b c"=>NULL, "q\"\\"=>"ü"', r'{"a":"1","b c":null,"q\"\\":"ü"}'),
        (HSTORE, "", "{}"),
        (array(HSTORE), r'{"\"a\"=>\"1\"",NULL}', r'{"{\"a\":\"1\"}",NULL}'),
        (array(HSTORE), r'[0:0]={"\"a\"=>\"1\""}', r'[0:0]={"\"a\"=>\"1\""}'),
    ],
)
def test_a_type_that_the_state_database_lacks_is_kept_as_events_have_it(
    type: TypeInfo, text: str, kept: str
) -> None:
    made = kept_text(type)
    assert made is not None
    assert made(text.encode()).decode() == kept


def test_most_types_have_one_text() -> None:
    assert [kept_text(base("citext")), kept_text(array(base("ltree")))] == [None, None]


def test_an_image_keeps_the_digits_of_its_numbers() -> None:
    image = (
        '{"n":123456789012345678901234567890.10,"f":1e+20,"p":{"x":1,"y":2},'
        '"u":"\\u00fc\\n","g":"?"}'
    )
    found = json.loads(rewritten(image, {"p": reader(base("point"), -1)}, ["g"]))
    assert found == {
        "n": "123456789012345678901234567890.10",
        "f": "1e+20",
        "p": "(1,2)",
        "u": "ü\n",
    }


@pytest.mark.parametrize(
    ("type", "typmod", "read_as", "required"),
    [
        (base("int4"), -1, "integer", False),
        (base("numeric"), 655366, "integer", False),
        (base("numeric"), -1, "text", False),
        (base("date"), -1, "text", False),
        (base("jsonb"), -1, "text", False),
        (base("bytea"), -1, "text", False),
        (base("bit"), 1, "boolean", False),
        (base("bit"), 2, "integer", True),
        (base("point"), -1, "integer", True),
        (array(base("text")), -1, "integer", False),
        (array(base("date")), -1, "integer", True),
        (base("money"), -1, "integer", False),
        (base("date", kind="enum"), -1, "integer", False),
    ],
)
def test_which_types_sql_reads(type: TypeInfo, typmod: int, read_as: str, required: bool) -> None:
    found = form(type, typmod, "integer")
    assert (found.read_as, found.required) == (read_as, required)
    assert (found.rewrite is not None) == required
    assert "x.c" in found.value("x.c")
    assert "{v}" not in found.value("x.c")


ZONED = base("timetz")


@pytest.mark.parametrize(
    ("type", "text", "filled"),
    [
        (ZONED, "12:34:56.5+05:30", "07:04:56.5Z"),
        (ZONED, "24:00:00+00", "24:00:00Z"),
        (ZONED, "24:00:00-08", "08:00:00Z"),
        (base("again", kind="domain", base="timetz"), "00:00:00+00:00:01", "23:59:59Z"),
        (array(ZONED), "{12:34:56+05:30,NULL,01:00:00+00}", "{07:04:56Z,NULL,01:00:00Z}"),
        (array(ZONED), "{{00:00:00-01},{00:00:00+01}}", "{{01:00:00Z},{23:00:00Z}}"),
        (array(ZONED), "{}", "{}"),
        (array(ZONED), "[0:0]={12:00:00+02}", "[0:0]={12:00:00+02}"),
        (array(base("again", kind="domain", base="timetz")), "{12:00:00+02}", "{10:00:00Z}"),
    ],
)
def test_a_timetz_is_filled_as_events_have_it(type: TypeInfo, text: str, filled: str) -> None:
    made = filled_text(type)
    assert made is not None
    assert made(text.encode()).decode() == filled
    encode = encoder(type, -1)
    assert encode is not None
    event = json.loads(encode(text.encode()))
    if isinstance(event, str):
        assert event == filled
    else:
        assert reader(type, -1)(event).replace('"', "") == filled


def test_all_else_is_filled_as_it_is() -> None:
    others = [base(name) for name in ("time", "timestamptz", "numeric", "text")]
    nested = TypeInfo(3, "public", "opening", "composite", "timetz")
    for type in (*others, *map(array, others), nested, array(nested)):
        assert filled_text(type) is None
