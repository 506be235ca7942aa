"""Redis, one server or a cluster: its client, how long it is waited for, what its refusals mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import NoScriptError
from redis.retry import Retry

from cdc.errors import RetryableError, SinkError
from cdc.secret_values import latest
from jobs.sinks.batch_writer import until
from jobs.sinks.redis.errors import RefusingError, translated

TIMEOUT_S = 30.0
_UNLINKED = 1_000
"""Keys in one command: the server lets go of them beside others."""

_T = TypeVar("_T")
Client: TypeAlias = Any
"""``redis.Redis``: its methods are typed for the blocking and the async client at once."""
Action = Callable[[Client], _T]


@dataclass(frozen=True, slots=True)
class Address:
    """Where Redis is and how long to wait for it; can be sent to executors."""

    url: str = field(repr=False)
    cluster: bool
    retry_s: float
    authorities: str = field(default="", repr=False)
    """PEM, trusted beside whom the system trusts."""

    @property
    def place(self) -> str:
        """Host, port and database: what may be shown of the URL."""
        return f"Redis at {_place(self.url)}"


class Row(NamedTuple):
    """What a script gets for one row: its keys, all of one hash slot, and its arguments."""

    names: tuple[str, ...]
    arguments: tuple[str | bytes, ...]


class _Page(NamedTuple):
    """``process`` gave it out, empty before the first: to another one ``cursor`` says nothing."""

    process: str
    cursor: int
    keys: list[bytes]


def parts(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """``items`` in pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@cache
def shared(address: Address) -> Keyspace:
    """One a process, for writers that come and go with their batches."""
    return Keyspace(address)


class Keyspace:
    """One Redis, or the nodes of a cluster, as one process sees it. The client is made when it is
    first needed, and again when the place has another primary."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: Client = None
        self._url = ""
        """What the client was made with: the password may be another one since."""

    def call(self, action: Action[_T]) -> _T:
        """Run ``action``, again for up to ``retry_s`` while the server is away, or takes no
        writes."""
        try:
            return until(self._address.retry_s, lambda: self._attempt(action))
        except RefusingError as error:
            raise SinkError(error.message, error.hint) from error

    def evaluate(
        self, script: str, common: Sequence[str | int], rows: Sequence[Row], most: int
    ) -> list[Any]:
        """Run a script over rows, at most ``most`` in a call; its answer for each, if it has such.

        In a cluster the rows of a call lie in one hash slot, and each node gets its calls at once.
        """
        answers: list[Any] = [None] * len(rows)
        self.call(lambda client: self._evaluate(client, script, common, rows, most, answers))
        return answers

    def _evaluate(
        self,
        client: Client,
        script: str,
        common: Sequence[str | int],
        rows: Sequence[Row],
        most: int,
        answers: list[Any],
    ) -> None:
        for node, calls in self._calls(client, rows, most):
            asked = []
            for numbers in calls:
                names = [name for number in numbers for name in rows[number].names]
                arguments = [value for number in numbers for value in rows[number].arguments]
                asked.append((names, [*common, *arguments]))
            for numbers, answer in zip(calls, _scripted(node, script, asked), strict=True):
                if isinstance(answer, list):
                    for number, one in zip(numbers, answer, strict=True):
                        answers[number] = one

    def _calls(
        self, client: Client, rows: Sequence[Row], most: int
    ) -> Iterator[tuple[Client, list[list[int]]]]:
        """The numbers of the rows of each call, by the node that gets it."""
        if not self._address.cluster:
            for part in parts(range(len(rows)), most):  # one by one: others are served in between
                yield client, [list(part)]
            return
        slots: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            slots.setdefault(key_slot(row.names[0].encode()), []).append(number)
        nodes: dict[Any, list[list[int]]] = {}
        for slot, numbers in slots.items():
            node = client.nodes_manager.get_node_from_slot(slot)
            nodes.setdefault(node, []).extend(list(part) for part in parts(numbers, most))
        for node, calls in nodes.items():
            for some in parts(calls, most):
                yield client.get_redis_connection(node), list(some)

    def pages(self, pattern: str, count: int) -> Iterator[list[bytes]]:
        """Every key that a pattern matches, page by page; one may come twice."""
        for at in range(self.call(lambda client: len(self._nodes(client)))):
            page = _Page("", 0, [])
            while not page.process or page.cursor != 0:
                page = self.call(partial(self._page, pattern, count, at, page))
                if page.keys:
                    yield page.keys

    def _page(self, pattern: str, count: int, at: int, before: _Page, client: Client) -> _Page:
        """The next page of one node; the first again when another server has taken its place, or
        the same one was started anew."""
        node = self._nodes(client)[at]
        page = _scanned(node, before.cursor, pattern, count)
        if before.process in ("", page.process):
            return page
        return _scanned(node, 0, pattern, count)

    def _nodes(self, client: Client) -> list[Client]:
        """Clients of the primaries, by the first hash slot of each: promotions keep that order."""
        if not self._address.cluster:
            return [client]
        slots = client.nodes_manager.slots_cache
        nodes = dict.fromkeys(slots[slot][0] for slot in sorted(slots))
        return [client.get_redis_connection(node) for node in nodes]

    def unlink(self, keys: Sequence[bytes]) -> None:
        """Remove keys: those of one server together, which is a hundredth of the work."""
        together = 1 if self._address.cluster else _UNLINKED
        self.each([("UNLINK", *some) for some in parts(keys, together)])

    def each(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands, all at once; their answers. In a cluster each is of one key."""

        def run(client: Client) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return _answers(pipeline)

        return self.call(run) if commands else []

    def close(self) -> None:
        """Let go of connections; the next call has others."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _attempt(self, action: Action[_T]) -> _T:
        try:
            with translated(_place(self._address.url), self._address.cluster):
                if (url := latest(self._address.url)) != self._url:
                    self.close()  # it would sign in with the former password
                client = self._client or _connect(self._address, url)
                self._client, self._url = client, url
                return action(client)
        except (RetryableError, SinkError):
            self.close()  # it may be a primary no longer
            raise


def _connect(address: Address, url: str) -> Client:
    """A client that never retries by itself: ``Keyspace.call`` decides what may be tried again.
    ``url`` is the address's, with its password of now."""
    settings: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": 5,
        "health_check_interval": 30,
    }
    if address.authorities and url.startswith("rediss:"):
        settings["ssl_ca_data"] = address.authorities
    kind = redis.RedisCluster if address.cluster else redis.Redis
    try:
        return kind.from_url(url, **settings)
    except (ValueError, TypeError) as error:
        raise SinkError(f"not a Redis URL: {error}", "write redis://host:port/database") from None


def _scanned(node: Client, cursor: int, pattern: str, count: int) -> _Page:
    """A page, and which process gave it out: the client connects again without a word."""
    pipeline = node.pipeline(transaction=False)
    pipeline.info("server")
    pipeline.scan(cursor, pattern, count)
    server, (after, keys) = _answers(pipeline)
    return _Page(str(server.get("run_id") or "nobody says"), after, keys)


def _scripted(
    client: Client, name: str, calls: Sequence[tuple[Sequence[Any], Sequence[Any]]]
) -> list[Any]:
    """The answers of some calls of a script; a server that was restarted is given the text
    again."""
    source, digest = _script(name)
    for first in (True, False):
        pipeline = client.pipeline(transaction=False)
        for names, arguments in calls:
            pipeline.execute_command("EVALSHA", digest, len(names), *names, *arguments)
        try:
            return _answers(pipeline)
        except NoScriptError:
            if not first:
                raise
            client.script_load(source)
    raise AssertionError("it was loaded")


def _answers(pipeline: Client) -> list[Any]:
    """What came of a pipeline. Asked to raise by itself, it would quote the commands' values."""
    answers = pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return list(answers)


def _place(url: str) -> str:
    """Host, port and database of a URL: what may be shown of it."""
    parts = urlsplit(url)
    return (
        f"{parts.hostname or parts.path}:{parts.port or 6379}{parts.path if parts.hostname else ''}"
    )


@cache
def _script(name: str) -> tuple[str, str]:
    source = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
