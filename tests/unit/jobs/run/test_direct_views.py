"""Views of a table without a mirror: what they cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import load_config
from cdc.errors import ViewError
from jobs.run.views.views_without_mirrors import is_direct

TEXT = """
[source]
name = "shop"
dsn = "host=a"
tables = ["public.events"]
[kafka]
bootstrap_servers = "localhost:9092"
[stores.cache]
kind = "redis"
url = "redis://localhost:6379/0"
[tables."public.events"]
mirror = false
[views.plain]
store = "cache"
key = ["id"]
sql = "select id from events"
[views.streamed]
store = "cache"
key = ["id"]
sql = "select id from events"
change_stream = true
"""


def test_a_change_stream_needs_the_mirror_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(TEXT, encoding="utf-8")
    config = load_config(path, {})
    assert is_direct(config, "plain")
    with pytest.raises(ViewError, match="view streamed has change_stream = true") as caught:
        is_direct(config, "streamed")
    assert 'mirror = false from [tables."public.events"]' in caught.value.hint
