"""Labels of an enum are renamed in the source: views and histories show what the source shows, a
view that is keyed by the label has no row under the old one, one that names it stops alone, and
nothing is parked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.config import View
from jobs.run.tables import mirrored_tables
from tests.support.servers.postgres import fresh_database
from tests.support.views.streamed_engine import TABLE, FakeStream, Setting
from tests.support.waiting import wait_until

SQL = "select code, ascii(label::text) as token from coded"
LITERAL = "select code, token from coded where label = 'a'"
KEYED = "select label as code, count(*)::int as token from coded group by label"


@pytest.fixture
def setting(
    postgres: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = Setting(source, state, spark, tmp_path, SQL)
        made.mirrors.execute(
            "create type label as enum ('a', 'b')",
            "alter table coded add label label not null default 'a'",
            "update coded set label = 'b' where code = 'b'",
        )
        made.send()
        more = {"keyed": KEYED, "literal": LITERAL}
        views = made.config.views | {
            name: View(store="lake", key=("code",), sql=sql) for name, sql in more.items()
        }
        made.config = made.config.model_copy(update={"views": views})
        monkeypatch.setattr(
            mirrored_tables, "read_table_versions", lambda *_: {TABLE: made.mirrors.versions}
        )
        yield made
        made.mirrors.close()


def rename(was: str, now: str) -> str:
    return f"alter type label rename value '{was}' to '{now}'"


def insert(code: str, label: str) -> str:
    return f"insert into coded (code, label) values ('{code}', '{label}')"


def are_right(setting: Setting) -> None:
    setting.are_right()

    def counted() -> bool:
        with setting.mirrors.as_client() as session:
            return setting.found("keyed") == dict(session.execute(KEYED.encode()).fetchall())

    wait_until(counted, "a view without the old label")
    parked = b"select count(*) from headwater.faulty_records"
    assert setting.mirrors.state.execute(parked).fetchone() == (0,)


def changed(setting: Setting, to: FakeStream, *statements: str) -> None:
    setting.mirrors.execute(*statements)
    setting.give(to)
    are_right(setting)


def test_views_show_what_labels_are_called_now(setting: Setting) -> None:
    with setting.applying():
        are_right(setting)
        wait_until(lambda: setting.found("literal") is not None, "a view that names a label")
    setting.mirrors.execute(insert("d", "a"), rename("a", "A"), insert("e", "A"))
    with setting.applying() as to:
        setting.give(to)  # events of both names
        are_right(setting)
        stopped = b"select error from headwater.views where name = 'literal'"
        wait_until(
            lambda: "22P02" in str(setting.mirrors.state.execute(stopped).fetchone()),
            "a view that names the old label to say why it has stopped",
        )
        setting.mirrors.execute(rename("b", "B"))  # without any event
        are_right(setting)
        exchanged = (rename("A", "x"), rename("B", "A"), rename("x", "B"))
        changed(setting, to, insert("f", "B"), *exchanged, insert("g", "A"))
        unseen = (rename("A", "y"), insert("h", "y"), rename("y", "z"))
        changed(setting, to, *unseen, insert("i", "z"))
