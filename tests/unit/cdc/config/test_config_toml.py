"""A ``headwater.toml`` that is no TOML: where, and how to write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cdc.config.test_config_faults import changed, told

STORES = "[stores.search]"


@pytest.mark.parametrize(
    ("good", "bad", "where", "fault"),
    [
        ('"shop"', '"shop', "line 3, column 13", "the line ends within quotes: close them"),
        ('"shop"', "shop", "line 3, column 8", "no value: text goes in double quotes, true and f"),
        ('= "shop"', '"shop"', "line 3, column 6", "a name without a value: write name = value"),
        ('"shop"', '"shop"\nname = "b"', "line 4, column 11", "name is set twice: keep one"),
        ('"shop"', '"a\\d"', "line 3, column 12", "a backslash in double quotes: put the text in"),
        ('"shop"', '"shop" 7', "line 3, column 15", "more behind the value: quote text, one sett"),
        (
            STORES,
            f"[kafka]\n{STORES}",
            "line 8, column 7",
            "[kafka] is there twice, or after a tabl",
        ),
        ("[source]", "[source", "line 2, column 8", "the section's name is not closed: write [sec"),
        ('["public.orders"]', '["a.b"', "line 6, column 1", "a list is not closed: end it with ]"),
        ('"select id from orders"', '"""select', "at its end", "the file ends within quotes: clos"),
        (
            '"shop"',
            "{a = 1 b = 2}",
            "line 3, column 15",
            "a table is not closed: write { name = valu",
        ),
        (
            '"shop"',
            "{a = 1, a = 2}",
            "line 3, column 21",
            "a is set twice: keep one",
        ),
        (
            '"shop"',
            "'shop'\nkeys = {}\nkeys.a = ['b']",
            "line 5, column 15",
            "source.keys is set twice, or outside of its { }: write it once",
        ),
        ("[source]", "= 7\n[source]", "line 2, column 1", "neither name = value nor [section]"),
    ],
)
def test_what_is_no_toml_says_where_and_how_to_write_it(
    tmp_path: Path, good: str, bad: str, where: str, fault: str
) -> None:
    (line,) = told(tmp_path, changed(good, bad))
    assert line.startswith(f"{where}: not valid TOML: {fault}")
