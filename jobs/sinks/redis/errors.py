"""What a Redis, or a cluster of them, refuses, and what that means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.exceptions import (
    AskError,
    AuthorizationError,
    ClusterCrossSlotError,
    ClusterError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    TryAgainError,
)

from cdc.errors import RetryableError, SinkError

_PASSING_HINTS = {
    "OOM": "raise maxmemory, or free memory",
    "READONLY": "point the store's url at the primary",
    "MISCONF": "see the server's log: it cannot save its data",
    "BUSY": "run SCRIPT KILL: a script blocks the server",
    "LOADING": "wait until it has loaded its data",
    "MASTERDOWN": "find out why the replica lost its primary",
    "NOREPLICAS": "start the replicas that min-replicas-to-write asks for",
}
_PASSING = re.compile(rf"\b({'|'.join(_PASSING_HINTS)})\b")
_OF_CLUSTERS = (ClusterError, AskError, TryAgainError)
"""A slot has moved, is moving, or nobody has it now."""
_NAMED: dict[type[Exception], str] = {OutOfMemoryError: "OOM", ReadOnlyError: "READONLY"}
"""Errors whose text has lost its first word."""


class RefusingError(RetryableError):
    """The server answers, but takes no writes for now (memory, replica, loading)."""


class HeldByOtherError(SinkError):
    """One of the keys of a command is something else than a row."""


@contextmanager
def translated(place: str, cluster: bool) -> Iterator[None]:
    """Turn the client's errors inside the block into ours."""
    try:
        yield
    except (redis.AuthenticationError, AuthorizationError, NoPermissionError) as error:
        raise SinkError(
            f"Redis at {place} refused the login or lacks a right: {error}",
            "check user and password in the store's url",
        ) from error
    except redis.BusyLoadingError as error:
        raise RetryableError(f"Redis at {place} is loading its data") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise SinkError(
                f"Redis at {place}: no trusted TLS connection",
                "check the certificate, and ssl_ca_location of the store",
            ) from error
        raise RetryableError(
            f"Redis at {place} does not answer ({type(error).__name__})",
            "start it, or correct the store's url",
        ) from error
    except MasterDownError as error:  # of a replica, which need not be a cluster's
        raise _refused("MASTERDOWN", place) from error
    except (*_OF_CLUSTERS, ClusterCrossSlotError) as error:
        if not cluster:
            raise SinkError(
                f"Redis at {place} is a node of a cluster", "set cluster = true for the store"
            ) from error
        raise RetryableError(
            f"the cluster of Redis at {place} is incomplete ({type(error).__name__})",
            "check CLUSTER INFO and CLUSTER SLOTS on one of its nodes",
        ) from error
    except redis.ResponseError as error:
        raise _refused(f"{_NAMED.get(type(error), '')} {error}".strip(), place) from error
    except RedisClusterException as error:  # no node answers, or none is of a cluster
        raise _no_cluster(str(error), place) from error


def _no_cluster(said: str, place: str) -> RetryableError | SinkError:
    if "mode is not enabled" in said:
        return SinkError(f"Redis at {place} is not a cluster", "set cluster = false for the store")
    return RetryableError(f"the cluster of Redis at {place} does not answer", "start its nodes")


def _refused(answer: str, place: str) -> RetryableError | SinkError:
    """The server's own error; its text names commands and keys' types. Of an unknown command it
    quotes arguments, too: keys and values of rows, which nobody asked for."""
    answer = answer.partition(", with args")[0]
    if match := _PASSING.search(answer):
        return RefusingError(
            f"Redis at {place} accepts no writes: {match[1]}", _PASSING_HINTS[match[1]]
        )
    if "WRONGTYPE" in answer:
        return HeldByOtherError(
            f"Redis at {place}: another program holds a key of the view (WRONGTYPE)",
            "use a separate database for the view, or rename the view",
        )
    return SinkError(f"Redis at {place} refused a command: {answer.splitlines()[0][:200]}")
