"""What one client gets, from where it goes on: rows of a spool, the end of the snapshot, changes.

    none ─▶ snapshot ─▶ log: catching up (a reader of its own) ◀─▶ log: in the ring

A batch holds some frames and the place behind them. Batches without frames come when nothing is
there for a while: what a filter leaves out is passed, too, so the place moves on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from cdc.config import Config
from cdc.lsn import format_lsn
from headwater.api.changes.clients import Client
from headwater.api.changes.frames import BATCH_BYTES, Walk, spooled_frames, told
from headwater.api.changes.hub import Hub, Hubs
from headwater.api.changes.log_reader import GoneError, Log
from headwater.api.changes.logs_now import LogsNow
from headwater.api.changes.origin import Origin, TableOrigin
from headwater.api.changes.place import LogPlace, Place, SnapshotPlace
from headwater.api.changes.selection import Selection
from headwater.api.changes.sse import Frame
from headwater.api.changes.view_origin import StateReads
from headwater.api.spool.spool_file import Spooled
from headwater.api.spool.spools import Spools
from headwater.api.tables import CapturedTable

_READERS: Final = 8
"""Clients that read from Kafka by themselves at the same time; others wait."""
_LOOK_S: Final = 0.5


class Batch(NamedTuple):
    """``place`` is behind the frames; "" before there is any."""

    frames: Sequence[Frame]
    place: str


@dataclass(slots=True)
class Sources:
    """What all clients share."""

    config: Config
    logs: LogsNow
    hubs: Hubs
    spools: Spools
    reads: StateReads
    readers: asyncio.Semaphore

    @classmethod
    def of(cls, config: Config, spools: Spools) -> Sources:
        logs, readers = LogsNow(config), asyncio.Semaphore(_READERS)
        return cls(config, logs, Hubs(config), spools, StateReads(config), readers)

    def table(self, table: CapturedTable) -> TableOrigin:
        return TableOrigin(self.config, self.logs, table)

    def close(self) -> None:
        self.hubs.close()
        self.spools.close()
        self.logs.close()
        self.reads.close()


class Following:
    """One client's way. ``idle_s``: after so long without anything an empty batch comes."""

    def __init__(
        self,
        sources: Sources,
        origin: Origin,
        chosen: Selection,
        client: Client,
        idle_s: float,
    ) -> None:
        self._sources, self._origin, self._chosen = sources, origin, chosen
        self._client, self._idle_s = client, idle_s

    async def batches(
        self, now: Log, place: Place | None, snapshot: bool
    ) -> AsyncGenerator[Batch, None]:
        """From ``place`` on; without one from a snapshot, or from ``now`` on.

        Raises ``GoneError`` where the client has to begin anew, ``HeadwaterError`` where a server
        is away.
        """
        if isinstance(place, LogPlace):
            now.refuse(place.topic_id, place.offsets)
        elif place is None and not snapshot:
            place = LogPlace(self._chosen.digest, now.topic_id, 0, now.end)
            yield Batch([], place.text())
        else:
            spooled = None
            if place is not None:
                spooled = self._sources.spools.find(self._origin.label, place.spool, now.topic_id)
            if spooled is None:
                making = asyncio.ensure_future(self._sources.spools.fresh(self._origin, now))
                while not (await asyncio.wait([making], timeout=self._idle_s))[0]:
                    yield Batch([], "")
                spooled = making.result()
                begin = SnapshotPlace(self._chosen.digest, spooled.id, 0)
                yield self._begin(spooled, begin, restarted=place is not None)
                place = begin
            assert isinstance(place, SnapshotPlace)
            async with aclosing(self._rows(spooled, place)) as rows:
                async for batch in rows:
                    yield batch
            place = self._behind(spooled)
        async with aclosing(self._changes(place)) as changes:
            async for batch in changes:
                yield batch

    def _behind(self, spooled: Spooled) -> LogPlace:
        lsn = spooled.lsn if self._origin.overlaps else 0
        return LogPlace(self._chosen.digest, spooled.topic_id, lsn, spooled.offsets)

    def _begin(self, spooled: Spooled, place: SnapshotPlace, restarted: bool) -> Batch:
        described = spooled.table
        data = {
            "table": spooled.label,
            "lsn": format_lsn(spooled.lsn),
            "rows": spooled.rows if self._chosen.everything else None,
            "restarted": restarted,
            "key": described["key"],
            "columns": [
                {"name": one["name"], "type": one["type"], "nullable": one["nullable"]}
                for one in described["columns"]
            ],
            "schema_id": described["schema_id"],
        }
        return Batch([told("snapshot-begin", data, place)], place.text())

    async def _rows(self, spooled: Spooled, place: SnapshotPlace) -> AsyncGenerator[Batch, None]:
        if place.row > spooled.rows:
            raise GoneError("future", f"row {place.row} is beyond the end, {spooled.rows}")
        try:
            reader = self._sources.spools.open(spooled)
        except OSError as error:
            message = f"the snapshot is gone: {error.strerror}"
            raise GoneError("snapshot", message) from error
        row = place.row
        with reader:
            while row < spooled.rows:
                reading = asyncio.to_thread(spooled_frames, reader, self._chosen, row)
                frames, row = await reading
                yield Batch(frames, SnapshotPlace(place.filter_id, spooled.id, row).text())
        behind = self._behind(spooled)
        data = {"lsn": format_lsn(spooled.lsn)}
        yield Batch([told("snapshot-end", data, behind)], behind.text())

    async def _changes(self, place: LogPlace) -> AsyncGenerator[Batch, None]:
        """For ever: through the ring, and by a reader of its own what that has dropped."""
        walk = Walk(self._chosen, place)
        now = await self._origin.now(place.offsets)
        now.refuse(place.topic_id, place.offsets)
        hub = self._sources.hubs.of(self._origin, now, place.offsets)
        with hub.followed(self._client):
            while True:
                in_ring = hub.ring.covers(walk.offsets)
                if not in_ring and hub.ring.dropped_none_of(walk.offsets):
                    self._client.wake.clear()
                    await self._woken(hub, _LOOK_S)  # the hub is behind this client's own reader
                    continue
                way = self._in_ring(hub, walk) if in_ring else self._catching_up(hub, walk)
                async with aclosing(way) as batches:
                    async for batch in batches:
                        yield batch

    async def _in_ring(self, hub: Hub, walk: Walk) -> AsyncGenerator[Batch, None]:
        """Until the ring has dropped what this client needs next."""
        ring, client = hub.ring, self._client
        client.number = ring.start(walk.offsets)
        try:
            while client.number >= ring.begin:
                client.wake.clear()
                entries = ring.after(client.number, BATCH_BYTES)
                frames = walk.frames(entries)
                client.number += len(entries)
                if client.number == ring.end:
                    walk.reach(ring.high)
                if not entries:
                    await self._woken(hub, self._idle_s)
                    if client.number < ring.end and not client.cut_for:
                        continue
                if frames or not entries:
                    yield Batch(frames, walk.place)
        finally:
            client.number = None

    async def _woken(self, hub: Hub, timeout_s: float) -> None:
        """Until something came, or the time is over. Raises what has ended the hub."""
        if hub.failed is None and not self._client.wake.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._client.wake.wait()
        if hub.failed is not None:
            raise hub.failed

    async def _catching_up(self, hub: Hub, walk: Walk) -> AsyncGenerator[Batch, None]:
        """Until the ring holds what is next."""
        while not await self._may_read():
            yield Batch([], walk.place)
        reader = self._origin.reader()
        try:
            while not hub.ring.dropped_none_of(walk.offsets):
                at = dict(enumerate(walk.offsets))
                entries, reached = await asyncio.to_thread(reader.read, at, _LOOK_S)
                frames = walk.frames(entries)
                walk.reach(reached)
                yield Batch(frames, walk.place)
        finally:
            self._sources.readers.release()
            await asyncio.shield(asyncio.to_thread(reader.close))

    async def _may_read(self) -> bool:
        """Whether one of the few readers is free now, or gets so soon."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._sources.readers.acquire()
        except TimeoutError:
            return False
        return True
