"""``headwater verify`` of a view that the state database keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from cdc.config import Config, Redis, parse_config
from cdc.errors import SourceError, StateError, ViewError
from headwater.cli.verify.state_views import Asked, compared, described
from headwater.cli.view.state_views import of_view
from jobs.state.server.apply_lock import hold_database
from jobs.state.server.connection import connect
from jobs.state.views.view_record import note_unbuilt
from jobs.state.views.view_status import ViewStatus, view_status
from tests.support.views.kept_views import table
from tests.support.views.state_engine import NAME, StateEngine
from verification.report import Report
from verification.scope import published_sql

NO_COLUMNS = '{"columns": [], "highest": 0, "files": "", "versions": {}}'
SQL = "select kind, count(*) as items, max(name) as last from item group by kind"


@pytest.fixture
def shop(
    database: str, store_database: str, redis_server: str, source_name: str
) -> Iterator[StateEngine]:
    tables = [table("item", ["id"], ["kind"], id="integer", kind="text", name="text")]
    store = Redis(kind="redis", url=redis_server)
    engine = StateEngine(database, store_database, store, source_name, SQL, ("kind",), tables)
    engine.change("insert into item select i, 'k' || i % 5, 'n' || i from generate_series(1, 50) i")
    engine.apply()
    yield engine
    engine.close()


def config(engine: StateEngine, home: Path, state_dsn: str, **views: str) -> Config:
    declared = {engine.view: SQL, **views}
    assert isinstance(engine.store, Redis)
    document: dict[str, Any] = {
        "source": {"name": NAME, "dsn": engine.source_dsn, "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "nowhere:9092"},
        "stores": {"store": {"kind": "redis", "url": engine.store.url}},
        "views": {
            name: {"store": "store", "key": ["kind"], "sql": sql} for name, sql in declared.items()
        },
        "apply": {"engine": "database", "state": str(home), "state_dsn": state_dsn},
    }
    return parse_config(document, {}, base=home)


def run(
    engine: StateEngine,
    config: Config,
    *,
    repair: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Report:
    asked = Asked(engine.view, 10.0, 20, repair)
    return compared(config, asked, engine.log, on_step)


def lose(engine: StateEngine, key: str) -> None:
    assert isinstance(engine.store, Redis)
    client: Any = redis.Redis.from_url(engine.store.url)
    assert client.delete(f"{engine.view}@1:{key}") == 1
    client.close()


def test_a_row_that_is_lost_is_found_and_written_again_by_who_applies_the_view(
    shop: StateEngine, tmp_path: Path
) -> None:
    settings = config(shop, tmp_path, shop.state_dsn)
    assert run(shop, settings).equal
    lose(shop, "k3")

    def keep(said: str) -> None:
        if said.startswith("waiting for headwater apply"):
            shop.apply()

    with connect(shop.state_dsn, autocommit=True) as applying:
        hold_database(applying)
        report = run(shop, settings, repair=True, on_step=keep)
    assert (report.missing, report.repaired, report.awaiting, report.equal) == (1, 1, 0, True)


def test_a_row_that_nobody_writes_is_told_as_awaiting(shop: StateEngine, tmp_path: Path) -> None:
    lose(shop, "k3")
    report = run(shop, config(shop, tmp_path, shop.state_dsn), repair=True)
    assert (report.missing, report.awaiting, report.beyond_repair, report.equal) == (1, 1, 0, False)


def test_without_the_state_database_a_view_is_verified_and_not_repaired(
    shop: StateEngine, tmp_path: Path
) -> None:
    settings = config(shop, tmp_path, "")
    lose(shop, "k3")
    report = run(shop, settings)
    assert (report.missing, report.rounds) == (1, 1)
    with pytest.raises(StateError, match=r"is not running\. Start `headwater apply"):
        run(shop, settings, repair=True)


def test_it_is_the_sql_that_the_view_was_built_with(shop: StateEngine, tmp_path: Path) -> None:
    other = {shop.view: "select kind, 1 as items from item group by kind"}
    assert run(shop, config(shop, tmp_path, shop.state_dsn, **other)).equal


def test_a_view_that_was_not_built_is_refused(shop: StateEngine, tmp_path: Path) -> None:
    settings = config(shop, tmp_path, shop.state_dsn, unbuilt=SQL)
    note_unbuilt(shop.state, "unbuilt", "no table t")
    assert view_status(settings, "unbuilt") == ViewStatus(applied=False, unbuilt="no table t")
    with pytest.raises(
        ViewError, match=r"view unbuilt: the state database knows no live generation .*: no table t"
    ):
        compared(settings, Asked("unbuilt", 10.0, 20, False), shop.log, lambda _: None)
    settings = config(shop, tmp_path, "", unbuilt=SQL)
    with pytest.raises(ViewError, match="view unbuilt: store store no longer holds the changes"):
        compared(settings, Asked("unbuilt", 10.0, 20, False), shop.log, lambda _: None)


def test_records_that_a_mirror_could_not_take_are_counted_for_views_of_its_table(
    shop: StateEngine, tmp_path: Path
) -> None:
    """By all who ask for parked keys: ``lag``, ``health``, ``wait``, the metric, ``view show`` and
    ``verify``."""
    settings = config(shop, tmp_path, shop.state_dsn)
    for name in ("item", "other"):
        shop.state.execute(
            b"with m as (insert into headwater.mirrors "
            b"(schema, name, oid, relation, columns, key, schema_id, state) "
            b"values ('public', %(name)s, 1, %(name)s, %(columns)s, '{id}', 'x', 'filled') "
            b"returning id) "
            b"insert into headwater.faulty_records (mirror_id, key, record, cause) "
            b"select id, '{\"id\":' || k || '}', 't-0-' || n, 'unfit' from m, "
            b"(values (1, 1), (1, 2), (2, 3)) v (k, n)",
            {"name": name, "columns": NO_COLUMNS},
        )
    assert view_status(settings, shop.view).parked == 2
    assert of_view(shop.state, settings, shop.view)["parked_keys"] == 2
    assert run(shop, settings).waiting == 2


def test_a_key_that_is_no_column_is_refused(shop: StateEngine, tmp_path: Path) -> None:
    settings = config(shop, tmp_path, shop.state_dsn, odd="select count(*) as items from item")
    with pytest.raises(ViewError, match=r"views.odd.key: 'kind' is not a column of the view"):
        described(settings, "odd", None)


def test_a_column_that_is_not_there_may_be_called_otherwise_now(
    shop: StateEngine, tmp_path: Path
) -> None:
    settings = config(shop, tmp_path, "", odd="select sort as kind, count(*) from item group by 1")
    with pytest.raises(SourceError, match=r'"sort" does not exist.*Run `headwater apply odd`'):
        described(settings, "odd", None)


@pytest.mark.parametrize(
    "publication",
    [
        "create publication p for table item where (id <= 20)",
        "create publication p for table item (id, kind)",
    ],
)
def test_only_what_is_published_is_compared(
    shop: StateEngine, tmp_path: Path, publication: str
) -> None:
    shop.source.execute(publication.encode())
    settings = config(shop, tmp_path, shop.state_dsn)
    source = settings.source.model_copy(update={"publication": "p"})
    settings = settings.model_copy(update={"source": source})
    if "where" not in publication:
        with pytest.raises(SourceError, match='column "name" does not exist'):
            run(shop, settings)
        return
    report = run(shop, settings)
    assert (report.different, report.missing, report.extra) == (5, 0, 0)


def test_a_table_s_key_settles_its_columns_also_where_it_is_published_in_part(
    shop: StateEngine, tmp_path: Path
) -> None:
    """A SELECT in its place has no key, so that GROUP BY names the columns itself there."""
    sql = "select id as kind, name, count(*) as items from item group by id"
    settings = config(shop, tmp_path, "", settled=sql)
    view = described(settings, "settled", None).view
    assert [column.name for column in view.columns] == ["kind", "name", "items"]
    shop.source.execute("create publication p for table item where (id <= 20)")
    source = settings.source.model_copy(update={"publication": "p"})
    view = described(settings.model_copy(update={"source": source}), "settled", None).view
    assert [column.name for column in view.columns] == ["kind", "name", "items"]
    with connect(shop.source_dsn) as conn:
        rows = conn.execute(published_sql(conn, view, "p").encode()).fetchall()
        own = conn.execute("select id, name, 1 from public.item where id <= 20").fetchall()
    assert sorted(rows) == sorted(own)
    assert len(own) == 20
