"""``[alerts.rows.NAME]``: what is refused, in words of this section."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cdc.config import RowAlert


@pytest.mark.parametrize("table", ["orders", "public.*", "*.*"])
def test_a_table_is_named_with_its_schema(table: str) -> None:
    with pytest.raises(ValidationError, match=r'name one table with its schema: "public\.orders"'):
        RowAlert(table=table, when="after.id = 1", webhook="https://hooks.example.com")
