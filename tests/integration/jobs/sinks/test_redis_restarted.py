"""A Redis that is killed and back between two questions of one walk over its keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from jobs.sinks.redis.client import Address, Keyspace
from stack import servers

KEYS = 5_000


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    settings = {"redis": {"appendfsync": "always"}}
    try:
        yield servers.start(tmp_path, ["redis"], settings).redis_url
    finally:
        servers.purge(tmp_path)


def test_no_key_is_left_out_by_a_restart(own: str, tmp_path: Path) -> None:
    """The new process has its keys in another order: a cursor of the old one skips some."""
    keys = {f"v@1:{number}" for number in range(KEYS)}
    with redis.Redis.from_url(own) as client:
        client.mset(dict.fromkeys(keys, "x"))
    keyspace = Keyspace(Address(own, False, 60))
    found = set[str]()
    for number, page in enumerate(keyspace.pages("v@1:*", 100)):
        found.update(key.decode() for key in page)
        if number in (10, 30):
            servers.kill(tmp_path, "redis")
            servers.start(tmp_path, ["redis"])
    keyspace.close()
    assert found == keys
