"""A copy of a table in memory that follows the source. Python 3.11, no packages.

python follow_table.py http://127.0.0.1:8484 public.orders [TOKEN]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen


class Event:
    """One server-sent event. ``id`` is "" where the server takes the position back."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.name, self.data, self.retry_ms = "", "", None


def events(response) -> Iterator[Event]:
    """Parse a stream: blocks of lines, each ended by an empty line."""
    event = Event()
    for raw in response:
        line = raw.decode("utf-8").rstrip("\n")
        if not line:
            yield event
            event = Event()
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            event.id = value
        elif field == "event":
            event.name = value
        elif field == "data":
            event.data += value
        elif field == "retry":
            event.retry_ms = int(value)


class Follower:
    """``rows`` by key. ``position`` is the id to go on from: keep it with the rows if they are kept
    on disk, in one transaction with them."""

    def __init__(self, base: str, table: str, token: str = "", query: str = "") -> None:
        self.url = f"{base}/changes/{quote(table)}{query}"
        self.token = token
        self.position = ""
        self.key: list[str] = []
        self.rows: dict[tuple, dict] = {}
        self.at: dict[tuple, tuple[int, int]] = {}  # the position of each row's last change
        self.complete = False
        self.retry_s = 2.0

    def run(self) -> None:
        """For ever, over broken connections and restarts."""
        while True:
            try:
                self.follow_once()
            except HTTPError as error:
                print(f"{error.code}: {error.read().decode()}", file=sys.stderr)
                if error.code not in (429, 503):
                    raise
            except (URLError, HTTPException, OSError) as error:
                print(f"disconnected: {error}", file=sys.stderr)
            time.sleep(self.retry_s)

    def follow_once(self) -> None:
        """One connection, to its end."""
        headers = {"Accept": "text/event-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.position:
            headers["Last-Event-ID"] = self.position
        with urlopen(Request(self.url, headers=headers), timeout=30) as response:
            for event in events(response):
                self.take(event)

    def take(self, event: Event) -> None:
        """Apply one event, and remember its id with it."""
        if event.retry_ms is not None:
            self.retry_s = event.retry_ms / 1000
        if event.name:
            data = json.loads(event.data)
            if event.name == "snapshot-begin":  # forget what was known
                self.key, self.rows, self.at, self.complete = data["key"], {}, {}, False
            elif event.name == "snapshot-end":
                self.complete = True
            elif event.name == "left":
                self.forget(tuple(data["key"][name] for name in self.key))
            elif event.name in ("row", "change"):
                self.apply(data)
        if event.id is not None:
            self.position = event.id

    def apply(self, change: dict) -> None:
        source = change["source"]
        position = source["commit_lsn"], source["ordinal"]
        if change["op"] == "t":  # once for each partition of the topic
            for key in [key for key, at in self.at.items() if at < position]:
                self.forget(key)
            return
        row = change["after"] or change["before"]
        key = tuple(row[name] for name in self.key)
        if change["op"] == "d":
            self.forget(key)
            return
        before = self.rows.get(key, {})
        for name in source.get("unchanged", []):  # a large value that the update left alone
            row[name] = before.get(name)
        self.rows[key], self.at[key] = row, position

    def forget(self, key: tuple) -> None:
        self.rows.pop(key, None)
        self.at.pop(key, None)


if __name__ == "__main__":
    Follower(*sys.argv[1:4]).run()
