"""A client's way as a ``text/event-stream``, or as one JSON document for a client that polls."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

import orjson
import structlog

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent
from headwater.api.changes.clients import Client, Clients
from headwater.api.changes.follow import Batch
from headwater.api.changes.log_reader import GoneError
from headwater.api.changes.sse import KEEP_ALIVE_S, Frame, keep_alive, retry
from headwater.api.problems import problem_of

_RETRY_MS: Final = (1_000, 5_000)
"""Drawn for each client: those that a restart has cut do not come back in one moment."""
_CUT: Final = {
    "slow": "The client did not read fast enough. Connect again: it goes on behind this id.",
    "stopping": "The server is stopping. Connect again: it goes on behind this id.",
    "access": "The login has ended, or the table is no longer granted. Log in, then connect again.",
    "failed": "A server does not answer. Connect again: it goes on behind this id.",
}

log = structlog.get_logger("serve")
Batches = AsyncGenerator[Batch, None]


async def event_stream(
    clients: Clients,
    client: Client,
    batches: Batches,
    place: str,
    may_go_on: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    """``place`` is what the client came with."""
    yield retry(random.randint(*_RETRY_MS))
    looked_at, sent_at = time.monotonic(), 0.0
    async with aclosing(batches) as following:
        try:
            async for frames, behind in following:
                now = time.monotonic()
                if now - looked_at > KEEP_ALIVE_S:
                    looked_at = now
                    if not may_go_on():
                        client.cut("access")
                # The first batch at once: it has the id of who begins without rows.
                if not client.cut_for and (frames or now - sent_at >= KEEP_ALIVE_S - 1):
                    sent_at = now
                    with client.sending():
                        yield _chunk(frames) if frames else keep_alive(behind)
                    clients.events += len(frames)
                    place = behind
                if client.cut_for:
                    break
        except GoneError as error:
            yield _gone(error)
            return
        except HeadwaterError as error:
            log.warning(LogEvent.STREAM_FAILED, table=client.table, error=str(error))
            client.cut("failed")
    if client.cut_for:
        yield cut(client.cut_for, place)


async def one_answer(batches: Batches, place: str) -> bytes:
    """The first batch, which may have no events: JSON. Raises what following raises."""
    async with aclosing(batches) as following:
        frames, behind = await anext(following)
    place = behind or place
    events = b",".join(map(_as_json, frames))
    return b'{"events":[' + events + b'],"next":' + orjson.dumps(place or None) + b"}"


def cut(reason: str, place: str) -> bytes:
    """Why a stream ends, and where it goes on."""
    data = {"reason": reason, "resume": place or None, "detail": _CUT[reason]}
    return b"id: %s\nevent: cut\ndata: %s\n\n" % (place.encode(), orjson.dumps(data))


def _gone(error: GoneError) -> bytes:
    """The empty id makes a browser come back without one, to a new snapshot."""
    return b"id:\nevent: gone\ndata: %s\n\n" % orjson.dumps(problem_of(error).document())


def _chunk(frames: Any) -> bytes:
    return b"".join([frame.bytes() for frame in frames])


def _as_json(frame: Frame) -> bytes:
    head = orjson.dumps({"id": frame.id, "event": frame.event})
    return head[:-1] + b',"data":' + frame.data + b"}"
