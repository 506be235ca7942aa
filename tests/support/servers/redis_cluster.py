"""A Redis cluster on loopback: each node is a server of the stack's, in a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis

from stack import servers
from tests.support.waiting import wait_until

SLOTS = 16_384
_NODE = {"cluster-enabled": "yes", "cluster-node-timeout": "8000", "save": ""}


class Cluster:
    """Three primaries, and a replica of the first."""

    def __init__(self, home: Path) -> None:
        self.homes = [home / f"node{number}" for number in range(4)]
        started = [servers.start(one, ["redis"], {"redis": _NODE}) for one in self.homes]
        self.urls = [one.redis_url for one in started]
        self.nodes: list[Any] = [redis.Redis.from_url(url) for url in self.urls]
        self._join()

    @property
    def url(self) -> str:
        """Of a node that lives on when the first one is killed."""
        return self.urls[1]

    def _join(self) -> None:
        for url in self.urls[1:]:
            self.nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", urlsplit(url).port)
        for number, node in enumerate(self.nodes[:3]):
            first, last = number * SLOTS // 3, (number + 1) * SLOTS // 3
            node.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
        first_id = self.nodes[0].execute_command("CLUSTER", "MYID")
        wait_until(lambda: self._knows(self.nodes[3], first_id), "the replica to know its primary")
        self.nodes[3].execute_command("CLUSTER", "REPLICATE", first_id)
        wait_until(lambda: all(map(self._whole, self.nodes)), "the cluster to be whole")
        wait_until(self._replicated, "the replica to have caught up")

    def _knows(self, node: Any, id_: Any) -> bool:
        text = id_.decode() if isinstance(id_, bytes) else id_
        return text in str(node.execute_command("CLUSTER", "NODES"))

    def _whole(self, node: Any) -> bool:
        info = node.execute_command("CLUSTER INFO")
        return (info["cluster_state"], info["cluster_known_nodes"]) == ("ok", "4")

    def _replicated(self) -> bool:
        told = self.nodes[3].info("replication")
        return str(told["master_link_status"]) == "up"

    def kill_first(self) -> None:
        """Kill the first primary, when its replica has all that it has."""

        def caught_up() -> bool:
            told = [node.info("replication") for node in (self.nodes[0], self.nodes[3])]
            assert [one["role"] for one in told] == ["master", "slave"]
            return bool(told[0]["master_repl_offset"] == told[1]["slave_repl_offset"])

        wait_until(caught_up, "the replica to have caught up")
        servers.kill(self.homes[0], "redis")


@contextmanager
def cluster_in(home: Path) -> Iterator[Cluster]:
    made = None
    try:
        made = Cluster(home)
        yield made
    finally:
        for node in made.nodes if made else ():
            node.close()
        for number in range(4):
            servers.purge(home / f"node{number}")
