"""A ``headwater.toml`` that is no TOML: where, and how to write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cdc.config.test_config_faults import changed, told

STORES = "[stores.search]"


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (
            '"shop"',
            '"shop',
            "line 3, column 13: not valid TOML: illegal character '\\n' (setting name)",
        ),
        ('"shop"', "secret", "line 3, column 8: not valid TOML: invalid value (setting name)"),
        ('= "shop"', '"shop"', "line 3, column 6: not valid TOML: expected '=' after a key"),
        ('"shop"', '"shop"\nname = "b"', "line 4, column 11: not valid TOML: cannot overwrite a v"),
        (
            STORES,
            f"[kafka]\n{STORES}",
            "line 8, column 7: not valid TOML: cannot declare ('kafka',) ",
        ),
        (
            "[source]",
            "[source",
            "line 2, column 8: not valid TOML: expected ']' at the end of a",
        ),
        ('"select id from orders"', '"""select', "at its end: not valid TOML: unterminated string"),
    ],
)
def test_what_is_no_toml_says_where_and_how_to_write_it(
    tmp_path: Path, good: str, bad: str, said: str
) -> None:
    (line,) = told(tmp_path, changed(good, bad))
    assert line.startswith(said)
    assert line.endswith('a section is [name], a setting is name = "text", names are unique')
    assert "secret" not in line, "a value may be one"
