"""What a view says whose tables are not what they were."""

from __future__ import annotations

from jobs.without_mirrors.incompatible_schema import no_longer
from tests.support.views.mirrored_view import version
from views.table_versions import other_names
from views.types import DATE, INT4, TEXT

WAS = version("orders", id=INT4, total=INT4, note=TEXT)
RENAMED = version("orders", id=INT4, amount=INT4, note=TEXT, added=DATE)


def test_a_column_at_the_place_of_another_may_be_it_under_another_name() -> None:
    assert other_names(WAS, RENAMED) == {"total": "amount"}
    two = version("orders", no=INT4, amount=INT4, note=TEXT)
    assert other_names(WAS, two) == {"id": "no", "total": "amount"}


def test_other_columns_are_not_taken_for_it() -> None:
    dropped = version("orders", id=INT4, note=TEXT, amount=INT4)
    another = version("orders", id=INT4, amount=DATE, note=TEXT)
    swapped = version("orders", id=INT4, note=TEXT, total=INT4)
    assert [other_names(WAS, now) for now in (dropped, another, swapped, WAS)] == [{}] * 4


def test_the_text_has_what_differs_and_what_to_write() -> None:
    name = WAS.name
    said = str(no_longer("v", "no such column", {name: WAS}, {name: RENAMED}))
    assert "public.orders lost total int4; got amount int4, added date" in said
    assert "RENAME COLUMN that took 'total' to 'amount', write so in the view's SQL" in said
    assert "headwater view rebuild v" in said
    gone = version("orders", id=INT4, note=TEXT)
    assert "Adapt the view's SQL" in str(no_longer("v", "x", {name: WAS}, {name: gone}))
