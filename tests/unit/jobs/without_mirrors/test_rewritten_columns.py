"""Views whose store has the rows of before ALTER TYPE: no event tells what that wrote."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from jobs.without_mirrors.incompatible_schema import refuse_rewritten
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.table_versions import TableVersion, parse_version

SQL = "select id, code from t where id > 0 and code is not null"


def version(
    base: str, typmod: int = -1, element: str | None = None, collation: str = ""
) -> TableVersion:
    code = {"name": "code", "base": base, "typmod": typmod, "element": element}
    columns = [
        {"name": "id", "base": "int4", "typmod": -1, "element": None},
        code | {"collation": collation},
    ]
    found = {"schema_id": f"{base}{typmod}{element}", "schema": "public", "table": "t"}
    return parse_version(found | {"columns": columns, "key": ["id"]})


CHAR3, CHAR8, TEXT = version("bpchar", 7), version("bpchar", 12), version("text")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (CHAR3, CHAR8),
        (CHAR3, TEXT),
        (TEXT, CHAR3),
        (version("inet"), TEXT),
        (version("interval"), version("varchar", 24)),
        (version("json"), version("jsonb")),
        (version("array", 7, "bpchar"), version("array", -1, "text")),
        (version("numeric"), version("numeric", ((40 << 16) | 2) + 4)),
        (version("bit", 8), version("bit", 16)),
        (version("timestamp"), version("timestamp", 3)),
        (version("array", 3, "time"), version("array", 0, "time")),
        (version("interval", 0x7FFFFFFF), version("interval", 0x7FFF0000)),
    ],
)
def test_other_texts_under_the_same_type_of_spark_stop_the_view(
    was: TableVersion, now: TableVersion
) -> None:
    view = resolve(parse_view("v", "s", ["id"], SQL), now)
    with pytest.raises(ViewError, match=r"view v: column 'code' of public.t was .* now; ") as error:
        refuse_rewritten(view, was)
    assert "`headwater view rebuild v`" in error.value.hint
    unread = resolve(parse_view("v", "s", ["id"], "select id from t"), now)
    refuse_rewritten(unread, was)


def test_lengths_are_told() -> None:
    with pytest.raises(ViewError) as error:
        refuse_rewritten(resolve(parse_view("v", "s", ["id"], SQL), CHAR8), CHAR3)
    assert error.value.message.startswith(
        "view v: column 'code' of public.t was char(3) and is char(8) now; public.t "
    )


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (version("varchar", 7), version("varchar", 24)),
        (version("varchar", 7), TEXT),
        (TEXT, version("varchar", 24)),
        (version("enum"), TEXT),
        (version("timestamp", 3), version("timestamp")),
        (version("timestamptz", 0), version("timestamptz", 6)),
        (version("timestamptz"), version("timestamptz", 6)),
        (version("interval", 0x7FFF0003), version("interval")),
        (TEXT, version("enum")),
        (version("citext"), TEXT),
        (TEXT, version("text", collation="ci")),
        (version("numeric", ((40 << 16) | 2) + 4), version("numeric")),
        (version("int4"), TEXT),  # which the store refuses
    ],
)
def test_the_same_texts_go_on(was: TableVersion, now: TableVersion) -> None:
    refuse_rewritten(resolve(parse_view("v", "s", ["id"], SQL), now), was)
