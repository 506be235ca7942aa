"""``[alerts.rows.NAME]``: what is refused, in words of this section."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cdc.config import RowAlert, View
from cdc.config.alerts import Alerts, refuse_unserved


@pytest.mark.parametrize("table", ["orders", "public.*", "*.*"])
def test_a_table_is_named_with_its_schema(table: str) -> None:
    with pytest.raises(ValidationError, match=r'name one table with its schema: "public\.orders"'):
        RowAlert(table=table, when="after.id = 1", webhook="https://hooks.example.com")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, 'table: is required: name one, or a view with view = "..."'),
        ({"table": "public.orders", "view": "sales"}, "view: stands beside table"),
    ],
)
def test_an_alert_is_of_one_table_or_one_view(named: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RowAlert.model_validate({"when": "after.id = 1", "webhook": "https://x.example", **named})


@pytest.mark.parametrize(
    ("view", "kept", "days", "said"),
    [
        ("sals", 1, 7.0, "alerts.rows.big.view: no view 'sals'; .* has: plain, sales"),
        ("plain", 1, 7.0, r"needs change_stream = true in \[views.plain\]"),
        ("sales", 0, 7.0, "needs apply.keep_generations of at least 1"),
        ("sales", 1, 0.0, "needs apply.keep_days above 0"),
    ],
)
def test_a_view_needs_a_change_stream_and_a_generation_to_finish(
    view: str, kept: int, days: float, said: str
) -> None:
    def views(**served: bool) -> dict[str, View]:
        return {
            name: View(store="cache", key=("id",), sql="select", change_stream=has)
            for name, has in served.items()
        }

    declared = views(sales=True, plain=False)
    alert = RowAlert(view=view, when="after.id = 1", webhook="https://hooks.example.com")
    alerts = Alerts(secret_file="secret", rows={"big": alert})
    with pytest.raises(ValueError, match=said):
        refuse_unserved(alerts, declared, kept, days)
    refuse_unserved(alerts, views(**{view: True}), 1, 0.5)
    assert (alerts.is_of(view), alerts.is_of("other")) == (True, False)
