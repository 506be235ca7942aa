"""Conditions decided by us and by PostgreSQL: true, false and unknown are the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg

from cdc.events.values.encoder import encoder
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.postgres import WIRE_OPTIONS
from cdc.source.types import load_types
from headwater.conditions.decide import Image, meets
from headwater.conditions.fit import fitted_to_rows
from headwater.conditions.parse import parse_condition

TABLE: Final = """
create temporary table conditions (
  id int4, big int8, total numeric, weight float8, word text, code varchar(20), paid bool,
  made uuid, rate float4
)
"""
ROWS: Final = """
insert into conditions values
  (1, 9007199254740993, 10.50, 0.1, 'open', 'a%b', true, '6f8b3c1e-0000-4000-8000-00000000000a',
   0.1),
  (2, -1, 'NaN', 'NaN', '', 'open', false, null, 'NaN'),
  (3, null, 'Infinity', '-Infinity', 'o_en', '100%', null, gen_random_uuid(), '-Infinity'),
  (4, 3, null, null, null, null, null, null, null),
  (5, 10, 10, 10, E'op\\nen', E'back\\\\slash', true, gen_random_uuid(), 10),
  (null, 0, '-Infinity', 'Infinity', 'Straße', 'STRASSE', false, gen_random_uuid(), 16777217),
  (7, 7, 7.000, 7, 'aaa', 'aa', true, gen_random_uuid(), 0.5)
"""
LEAVES: Final = (
    "id = 1", "id <> 2", "id != 7", "id in (1, 3, 7)", "id not in (1, 2)", "big > 9007199254740992",
    "big = 9007199254740993", "total > 10", "total <= 10.5", "total < 1e50", "weight = 0.1",
    "weight >= 7", "total = weight", "total > weight", "id = big", "weight < big", "total <> id",
    "word = 'open'", "word <> code", "word like 'o_en'", "word like 'op%'", "code like '%\\%'",
    "code like 'a\\%b'", "word not like '%a'", "code like '%\\\\\\\\%'", "word like '%a%a%'",
    "word like '%'", "paid = true", "paid <> false", "made is null", "big is not null",
    "made = '6F8B3C1E-0000-4000-8000-00000000000A'", "word is distinct from code",
    "total is not distinct from weight", "word is distinct from 'open'",
    "paid is not distinct from paid",
    "total is distinct from 10", "weight in (7, 10)", "word in ('open', 'aaa')",
    "rate = 0.5", "rate > 0.1", "rate <= 0.1", "rate in (0.5, 10)", "rate = weight", "rate > total",
    "rate <> id", "rate is distinct from 0.5", "rate >= 16777217", "big < rate",
)  # fmt: skip


def combined() -> Iterator[str]:
    """Every comparison alone, then many at random joined."""
    yield from LEAVES
    yield from (f"not ({leaf})" for leaf in LEAVES)
    chance = random.Random(32)

    def grown(depth: int) -> str:
        if depth == 0:
            return chance.choice(LEAVES)
        parts = [grown(depth - 1) for _ in range(chance.choice((1, 2, 2, 3)))]
        text = f" {chance.choice(('and', 'or'))} ".join(parts)
        return chance.choice((text, f"({text})", f"not ({text})"))

    yield from (grown(chance.choice((1, 2))) for _ in range(200))


def published(row: Sequence[bytes | None], kinds: Sequence[TypeInfo]) -> list[Any]:
    """A row of texts as events have it."""
    return [
        None if text is None else json.loads(encode(text) if encode else text)
        for encode, text in zip([encoder(kind, -1) for kind in kinds], row, strict=True)
    ]


def test_every_condition_has_the_value_that_postgresql_gives_it(postgres: str) -> None:
    conditions = list(combined())
    with psycopg.connect(postgres, options=WIRE_OPTIONS, autocommit=True) as connection:
        types = load_types(connection)
        connection.execute(TABLE)
        connection.execute(ROWS)
        with closing(connection.cursor()) as cursor:
            cursor.execute("select * from conditions order by big")
            result = cursor.pgresult
            assert result is not None
            kinds = [types[result.ftype(i)] for i in range(result.nfields)]
            names = [str(column.name) for column in cursor.description or ()]
            texts = [
                [result.get_value(row, i) for i in range(result.nfields)]
                for row in range(result.ntuples)
            ]
        told = ", ".join(f"({one})" for one in conditions)
        expected = connection.execute(
            f"select array[{told}] from conditions order by big".encode()
        ).fetchall()
    columns = tuple(
        Column(name, kind, -1, name == "id") for name, kind in zip(names, kinds, strict=True)
    )
    relation = Relation(1, "public", "conditions", "f", columns, ("id",))
    fitted = [fitted_to_rows(parse_condition(one), relation) for one in conditions]
    for text_row, (values,) in zip(texts, expected, strict=True):
        row = dict(zip(names, published(text_row, kinds), strict=True))
        ours = [meets(one, {"": Image(row)}) for one in fitted]
        differing = [
            (text, mine, theirs)
            for text, mine, theirs in zip(conditions, ours, values, strict=True)
            if mine is not theirs
        ]
        assert not differing, row
