"""A Redis server: its client, how long it is waited for, and what its refusals mean."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthorizationError, NoPermissionError, NoScriptError
from redis.retry import Retry

from cdc.errors import RetryableError, SinkError
from jobs.sinks.writing import until

TIMEOUT_S = 30.0

_PASSING_HINTS = {
    "OOM": "raise maxmemory, or make room",
    "READONLY": "point the store's url at the primary",
    "MISCONF": "see the server's log: it cannot save its data",
    "BUSY": "a script blocks the server: SCRIPT KILL ends it",
    "LOADING": "wait until it has loaded its data",
    "MASTERDOWN": "see why the replica lost its primary",
    "NOREPLICAS": "start the replicas that min-replicas-to-write asks for",
}
_PASSING = re.compile(rf"\b({'|'.join(_PASSING_HINTS)})\b")
_T = TypeVar("_T")
Client: TypeAlias = Any
"""``redis.Redis``: its methods are typed for the blocking and the async client at once."""
Action = Callable[[Client], _T]


class _RefusingError(RetryableError):
    """The server answers, but takes no writes for now (memory, replica, loading)."""


class HeldByOtherError(SinkError):
    """One of the keys of a command is something else than a row."""


def connect(url: str) -> Client:
    """A client that never retries by itself: ``call`` decides what may be tried again."""
    try:
        return redis.Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=5,
            health_check_interval=30,
        )
    except ValueError as error:
        raise SinkError(f"not a Redis URL: {error}", "write redis://host:port/database") from None


@cache
def shared_client(url: str) -> Client:
    """One client a process, for writers that come and go with their batches."""
    return connect(url)


def call(client: Client, url: str, retry_s: float, action: Action[_T]) -> _T:
    """Run ``action``, again for up to ``retry_s`` while the server is away or takes no writes."""
    try:
        return until(retry_s, lambda: _attempt(client, url, action))
    except _RefusingError as error:
        raise SinkError(error.message, error.hint) from error


def _attempt(client: Client, url: str, action: Action[_T]) -> _T:
    try:
        return action(client)
    except (redis.AuthenticationError, AuthorizationError, NoPermissionError) as error:
        raise SinkError(
            f"Redis at {_place(url)} refused the login or lacks a right: {error}",
            "check user and password in the store's url",
        ) from error
    except redis.BusyLoadingError as error:
        raise RetryableError(f"Redis at {_place(url)} is loading its data") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise RetryableError(
            f"Redis at {_place(url)} does not answer ({type(error).__name__})",
            "start it, or correct the store's url",
        ) from error
    except redis.ResponseError as error:
        raise _refused(str(error), url) from error


def _refused(answer: str, url: str) -> RetryableError | SinkError:
    """The server's own error; its text names commands and keys' types, never values."""
    if match := _PASSING.search(answer):
        return _RefusingError(
            f"Redis at {_place(url)} takes no writes: {match[1]}", _PASSING_HINTS[match[1]]
        )
    code = answer.partition(" ")[0]
    if "WRONGTYPE" in answer:
        return HeldByOtherError(
            f"Redis at {_place(url)}: a key of the view is held by something else ({code})",
            "use a database of its own for the view, or rename the view",
        )
    return SinkError(f"Redis at {_place(url)} refused a command: {answer.splitlines()[0][:200]}")


def _place(url: str) -> str:
    """Host, port and database of a URL: what may be shown of it."""
    parts = urlsplit(url)
    return (
        f"{parts.hostname or parts.path}:{parts.port or 6379}{parts.path if parts.hostname else ''}"
    )


def evaluate(
    client: Client, script: str, names: Sequence[str | bytes], arguments: Sequence[str | int]
) -> int:
    """Run a script by its hash; a server that was restarted is given the text again."""
    source, digest = _script(script)
    try:
        return int(client.evalsha(digest, len(names), *names, *arguments))
    except NoScriptError:
        return int(client.eval(source, len(names), *names, *arguments))


@cache
def _script(name: str) -> tuple[str, str]:
    source = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
