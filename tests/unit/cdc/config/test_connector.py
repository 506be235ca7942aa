"""What a configuration can ask for where a connector of Debezium fills the topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import load_config
from cdc.errors import ConfigError
from tests.unit.cdc.config.test_config import ENVIRONMENT, GOOD

EVENTS = '[events]\npreset = "debezium"\n'
CONNECTOR = GOOD.replace("[kafka]", 'events = "debezium"\n[kafka]') + EVENTS
LAKE = '[stores.lake]\nkind = "delta"\npath = "lake"\n'
REFUSED = [
    (CONNECTOR.replace(EVENTS, ""), "[events] does not say how"),
    (
        CONNECTOR + 'format = "avro"\n[events.registry]\nurl = "http://localhost:8081"\n',
        "a connector's topics are read as JSON",
    ),
    (CONNECTOR + '[apply]\nengine = "delta"\n', "apply.engine"),
    (CONNECTOR + '[tables."public.orders"]\nmirror = false\n', "tables.public.orders.mirror"),
    (
        CONNECTOR + LAKE + '[views.log]\nstore = "lake"\nkey = ["id"]\nhistory = "log"\n'
        'sql = "select id from orders"\n',
        "views.log.history",
    ),
    (
        CONNECTOR.replace("[kafka]", 'columns = { "public.orders" = { note = "mask" } }\n[kafka]'),
        "public.orders.note",
    ),
    (GOOD.replace("[kafka]", 'events = "maxwell"\n[kafka]'), "source.events"),
]


def test_slot_and_publication_are_the_connectors_unless_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(CONNECTOR, encoding="utf-8")
    source = load_config(path, ENVIRONMENT).source
    assert (source.slot_name, source.publication_name) == ("debezium", "dbz_publication")
    path.write_text(CONNECTOR.replace("[kafka]", 'slot = "own"\n[kafka]'), encoding="utf-8")
    assert load_config(path, ENVIRONMENT).source.slot_name == "own"


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_what_a_connectors_topics_do_not_hold_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ENVIRONMENT)
    assert told in str(caught.value)
