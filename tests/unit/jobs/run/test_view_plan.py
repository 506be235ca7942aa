"""What is said of a view whose tables have lost a column that it was built with."""

from __future__ import annotations

from jobs.run.views.view_plan import way_out
from views.maintain.mirror import MirrorColumn, MirrorTable


def table(*columns: str) -> MirrorTable:
    found = [MirrorColumn("id", "integer", nullable=False)]
    found += [MirrorColumn(name, "text") for name in columns]
    return MirrorTable("public", "t", tuple(found), ("id",))


def test_a_column_that_was_added_again_asks_for_a_rebuild_alone() -> None:
    sql, now = "select id, upper(note) as note from t", {"public.t": table("note", "other")}
    said = way_out("v", sql, ["id"], now)
    assert said == "run `headwater view rebuild v`: its SQL fits the tables as they are now"
    gone = way_out("v", sql, ["id"], {"public.t": table("other")})
    assert gone == "adapt the SQL of the view, then `headwater view rebuild v`"
