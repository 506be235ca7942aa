"""Values of every type in a mirror: byte for byte the source's, whichever way they came; a
``timetz`` in UTC.

Rows are generated, inserted into the source, and brought to the mirror by events of the stream and
by COPY to COPY. What both databases show as text has to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.integration.cdc.source.test_values_against_postgres import (
    CASES,
    CLOCK,
    OFFSETS,
    arrays,
)
from tests.support.values import MORE, TYPES
from tests.support.views.mirror_tables import MirrorSetting

EXAMPLES = 12
ROWS = 12
GROUP = 14
# Of arrays whose elements are arrays, events do not tell the dimensions.
ZONED = st.tuples(CLOCK, OFFSETS).map("".join)
ALL = [
    *(case for case in (*CASES, *MORE) if case[0] != "grid[]"),
    ("timetz[]", arrays(ZONED, bounds=True)),
    ("rezoned", ZONED),
    ("rezoned[]", arrays(ZONED, bounds=True)),
]
GROUPS = [ALL[i : i + GROUP] for i in range(0, len(ALL), GROUP)]
Row = tuple[str | None, ...]


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    zoned = "create domain zoned as timetz(2); create domain rezoned as zoned"
    made.execute(TYPES, zoned, "create table odd (id int)")
    yield made
    made.close()


def create(setting: MirrorSetting, declarations: Sequence[str]) -> str:
    """A table with a column of each type; what inserts rows of text into it."""
    columns = ", ".join(f"v{i} {kind}" for i, kind in enumerate(declarations))
    casts = ", ".join(f"cast(v{i} as {kind})" for i, kind in enumerate(declarations))
    arrays_of_text = ", ".join(["%s::text[]"] * len(declarations))
    names = ", ".join(f"v{i}" for i in range(len(declarations)))
    setting.execute(f"create table t (id serial primary key, {columns})")
    return f"insert into t ({names}) select {casts} from unnest({arrays_of_text}) as u ({names})"


@pytest.mark.parametrize("group", GROUPS, ids=[",".join(n for n, _ in g) for g in GROUPS])
def test_a_mirror_has_the_source_s_values(
    setting: MirrorSetting, group: list[tuple[str, st.SearchStrategy[str]]]
) -> None:
    insert = create(setting, [declaration for declaration, _ in group])
    setting.stream()
    (filled,) = setting.fill("public.t")
    drawn: list[Row] = []
    row = st.tuples(*[st.none() | values for _, values in group])

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate],  # each example is a batch: shrinking takes minutes
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(row, min_size=1, max_size=ROWS))
    @example([(None,) * len(group)])
    def streamed(rows: list[Row]) -> None:
        put(rows)
        setting.catch_up()
        setting.assert_equal("public.t")
        drawn.extend(rows)

    def put(rows: list[Row]) -> None:
        with setting.as_client() as session:
            session.execute("truncate t")
            values = [list(column) for column in zip(*rows, strict=True)]
            session.execute(insert.encode(), values)

    streamed()
    assert filled.rows == 0
    put(drawn)
    (again,) = setting.fill("public.t")
    assert again.rows == len(drawn) > EXAMPLES
    setting.assert_equal("public.t")
    kept_as_text = {column.sql for column in again.table.columns if column.is_text}
    assert kept_as_text <= {"text", "text[]"}
