"""Types and literals beyond those whose JSON a reader casts back: what a column may hold at all."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.integration.cdc.source.test_values_against_postgres import (
    BITS,
    CLOCK,
    INTEGERS,
    JSONS,
    OFFSETS,
    TEXT,
    arrays,
    quoted,
)

TYPES = r"""
create extension vector;
create type mood as enum ('sad', 'ok ok', 'h"x', 'größer', '', 'NULL', 'a,b', '{}', '\', '(1,2)');
create type pair as (a int, b text);
create type nest as (p pair, m mood[]);
create type textrange as range (subtype = text);
create domain price as numeric(10,2);
create domain cheap as price check (value < 100);
create domain feeling as mood;
create domain two as pair;
create domain grid as int4[];
create domain span as int4range;
create domain moment as timestamptz(3);
"""
PAIRS = st.tuples(INTEGERS[4], TEXT).map(lambda p: f"({p[0]},{quoted(p[1])})")
POINTS = st.tuples(INTEGERS[2], st.floats(allow_nan=False)).map(lambda p: f"({p[0]},{p[1]!r})")
SPANS = st.tuples(INTEGERS[2], INTEGERS[2]).map(lambda p: f"[{min(p)},{max(p)})")
MOODS = st.sampled_from(["sad", "ok ok", 'h"x', "größer", "", "NULL", "a,b", "{}", "\\", "(1,2)"])
JSON_AS_WRITTEN = JSONS | st.sampled_from(
    [
        '{"a":1,  "a" : 2}',
        ' { "n" : 123456789012345678901234567890.10e-400 } ',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\\u0000"',
        "[1,\n\t2]",
        "-0.00",
        "null",
    ]
)
HUGE = st.sampled_from(["1e30000", "-1e-16383", "9" * 500 + "." + "1" * 500, "-0.000", "NaN"])
ODD_STAMPS = [
    *("infinity", "-infinity", "0044-03-15 BC", "0001-12-31 23:59:59.5 BC", "12345-06-07"),
    *("4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999", "1582-10-10 12:00:00.10"),
    *("0001-01-01", "9999-12-31 23:59:59.999999", "10000-01-01", "1969-12-31 23:59:59.999999"),
]
STAMPS = st.datetimes().map(str) | st.sampled_from(ODD_STAMPS)
# Beyond the cases of the way there and back, whose forms a reader must be able to tell apart.
MORE: list[tuple[str, st.SearchStrategy[str]]] = [
    ("int4", INTEGERS[4].map(str)),
    ("numeric", HUGE),
    ("numeric(3,5)", st.just("0.00123")),
    ("numeric(5,-2)", st.integers(-9999949, 9999949).map(str)),
    ('"char"', st.sampled_from(["", "a", '"', "\\", "é", "\\303"])),
    ("name", TEXT),
    ("bpchar", TEXT),
    ("json", JSON_AS_WRITTEN),
    ("jsonb", st.sampled_from(['{"a":1,  "a" : 2}', "1e400", '"\\ud83d\\ude00"', "1.50", "null"])),
    ("json[]", arrays(JSON_AS_WRITTEN)),
    ("jsonpath", st.sampled_from(["$.a", '$."ü \\"x".*[0 to 2]', "strict $ ? (@ > 1)"])),
    ("mood", MOODS),
    ("mood[]", arrays(MOODS)),
    ("feeling", MOODS),
    ("feeling[]", arrays(MOODS)),
    ("pair[]", arrays(PAIRS)),
    ("nest", PAIRS.map(lambda p: f'({quoted(p)},"{{sad,NULL}}")')),
    ("two", PAIRS),
    ("two[]", arrays(PAIRS)),
    ("grid", arrays(INTEGERS[4].map(str), bounds=True)),
    ("grid[]", arrays(arrays(INTEGERS[4].map(str)))),
    ("cheap", st.decimals(-99, 99, places=2).map(str)),
    ("cheap[]", arrays(st.decimals(-99, 99, places=2).map(str))),
    ("span", SPANS),
    ("span[]", arrays(SPANS)),
    ("moment", st.datetimes().map(str)),
    ("moment[]", arrays(st.datetimes().map(str))),
    ("int8range", SPANS | st.sampled_from(["empty", "(,)"])),
    ("numrange", SPANS),
    ("daterange", st.sampled_from(["[-infinity,infinity]", "[0044-03-15 BC,2020-01-01)"])),
    ("tsrange", st.sampled_from(["[2020-01-01,infinity]", "(,12345-01-01 00:00:00.5)"])),
    ("tstzrange", st.sampled_from(["[2020-01-01 00:00:00+02,infinity]", "empty"])),
    ("textrange", st.sampled_from(['["a,b","c""d"]', '[a,"z)"]', '("",)', "empty"])),
    ("numrange[]", arrays(SPANS)),
    ("nummultirange", st.sampled_from(["{}", "{[1.0,5.5],(7,)}"])),
    ("tstzmultirange", st.sampled_from(["{[2020-01-01,infinity]}"])),
    ("int4multirange[]", st.sampled_from(['{"{[1,5),[7,9)}",NULL,"{}"}'])),
    ("inet", st.ip_addresses().map(str) | st.sampled_from(["10.1.2.3/8", "2001:db8::/32"])),
    ("cidr", st.sampled_from(["10.0.0.0/8", "::1/128", "10.1.2.3/32"])),
    ("cidr[]", arrays(st.sampled_from(["10.0.0.0/8", "::/0"]))),
    ("macaddr", st.just("08:00:2b:01:02:03")),
    ("macaddr8", st.just("08:00:2b:01:02:03:04:05")),
    ("tsvector", st.sampled_from(["a:1A fat:2B,3", "'it''s' 'a b'", "'ü\\\\'"])),
    ("tsquery", st.sampled_from(["a & !b | c", "'it''s' <2> b:*A", ""])),
    ("bit(72)", st.text("01", min_size=72, max_size=72)),
    ("bit(3)[]", arrays(st.text("01", min_size=3, max_size=3))),
    ("varbit(9)", st.text("01", max_size=9)),
    ("timestamp", STAMPS),
    ("timestamptz", STAMPS),
    ("timetz", st.tuples(CLOCK, OFFSETS).map("".join)),
    ("timetz(2)", st.tuples(CLOCK, OFFSETS).map("".join)),
    ("date[]", arrays(st.sampled_from(["infinity", "0044-03-15 BC", "12345-01-01"]))),
    ("time[]", arrays(CLOCK)),
    ("money[]", arrays(INTEGERS[4].map(str))),
    ("float4[]", arrays(st.floats(width=32).map(repr))),
    ("bool[]", arrays(st.sampled_from("tf"))),
    ("int8[]", arrays(st.integers(-(2**63), 2**63 - 1).map(str), bounds=True)),
    ("uuid[]", arrays(st.uuids().map(str))),
    ("oid[]", arrays(st.integers(0, 2**32 - 1).map(str))),
    ("name[]", arrays(st.text("ab é", max_size=9))),
    ("box", st.tuples(POINTS, POINTS).map(",".join)),
    ("box[]", st.sampled_from(["{(3,4),(1,2);(3,4),(1,2)}", "{NULL;(1,1),(0,0)}", "{}"])),
    ("lseg", st.tuples(POINTS, POINTS).map(lambda p: f"[{p[0]},{p[1]}]")),
    ("path", st.lists(POINTS, min_size=1, max_size=3).map(lambda p: f"[{','.join(p)}]")),
    ("path", st.lists(POINTS, min_size=1, max_size=3).map(lambda p: f"({','.join(p)})")),
    (
        "polygon",
        st.tuples(st.lists(POINTS, min_size=1, max_size=3), st.integers(0, 1)).map(
            lambda p: f"({','.join([*p[0], *p[0][: p[1]]])})"
        ),
    ),
    ("line", st.sampled_from(["{1,2,3}", "{0,-1,1e-300}"])),
    ("circle", POINTS.map(lambda p: f"<{p},3.5>")),
    ("point[]", arrays(POINTS)),
    ("vector(3)", st.sampled_from(["[1,-2.5,1e-7]", "[0,0,3e38]"])),
    ("halfvec", st.just("[1,2.5]")),
    ("sparsevec(5)", st.sampled_from(["{1:1,3:-2.5}/5", "{}/5"])),
    ("pg_lsn", st.sampled_from(["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"])),
    ("xid", st.integers(0, 2**32 - 1).map(str)),
    ("xid8", st.integers(0, 2**64 - 1).map(str)),
    ("cid", st.integers(0, 2**32 - 1).map(str)),
    ("tid", st.just("(4294967295,65535)")),
    ("pg_snapshot", st.just("10:20:10,14")),
    ("refcursor", TEXT),
    ("regclass", st.sampled_from(["pg_class", "public.odd"])),
    ("regtype", st.sampled_from(["int4[]", "timestamp with time zone", "public.mood"])),
    ("regproc", st.sampled_from(["now", "4294967295"])),
    ("regprocedure", st.just("pg_catalog.abs(int4)")),
    ("regoperator", st.just("pg_catalog.+(int4,int4)")),
    ("regrole", st.just("pg_monitor")),
    ("regnamespace", st.just("pg_catalog")),
    ("regconfig", st.just("english")),
    ("regcollation", st.just('"C"')),
    ("int2vector", st.just("1 2 3")),
    ("oidvector", st.just("1 4294967295")),
    ("varbit[]", arrays(BITS)),
]
