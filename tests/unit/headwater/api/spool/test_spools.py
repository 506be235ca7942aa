"""Which spool a client gets: never one of another log than it was let in to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cdc.config import Config, load_config
from cdc.errors import RetryableError
from headwater.api.changes.log_reader import Log
from headwater.api.changes.origin import Reader
from headwater.api.spool.spools import Spools
from headwater.api.spool.table_read import Receiver
from tests.unit.headwater.conditions.orders import ORDERS


class Generation:
    """A view's rows, as those of one generation; ``read`` is the one that is there by then."""

    overlaps = False

    def __init__(self, wanted: str, read: str = "") -> None:
        self.label, self.relation = "view v", ORDERS
        self.wanted, self.read, self.going = wanted, read or wanted, threading.Event()
        self.begun = threading.Event()

    def log(self, epoch: str = "") -> Log:
        return Log(self.label, epoch or self.wanted, (1,), (5,))

    async def now(self, place: Sequence[int] = ()) -> Log:  # noqa: ARG002
        return self.log()

    def reader(self) -> Reader:
        raise AssertionError("changes are not asked for")

    def snapshot(self, receiver: Receiver, going_on: Callable[[], None]) -> Log:  # noqa: ARG002
        self.begun.set()
        receiver.begin(1, ORDERS)
        receiver.rows([b"k"], [self.read.encode()])
        assert self.going.wait(60)
        return self.log(self.read)


def config(folder: Path) -> Config:
    path = folder / "headwater.toml"
    path.write_text(
        '[source]\nname = "s"\ndsn = "postgresql://127.0.0.1/s"\ntables = ["public.t"]\n'
        '[kafka]\nbootstrap_servers = "127.0.0.1:9"\n'
    )
    return load_config(path)


def test_rows_of_another_generation_are_given_to_nobody_who_asked_for_this_one(
    tmp_path: Path,
) -> None:
    """Its tables may be others, which the client was not granted."""

    async def both() -> None:
        spools = Spools(config(tmp_path), tmp_path / "spool")
        first, second = Generation("one"), Generation("two")
        slow = asyncio.create_task(spools.fresh(first, first.log()))
        assert await asyncio.to_thread(first.begun.wait, 60)
        second.going.set()
        assert (await spools.fresh(second, second.log())).topic_id == "two"
        first.going.set()
        assert (await slow).topic_id == "one"
        late = Generation("three", read="four")  # rebuilt while it was read
        late.going.set()
        with pytest.raises(RetryableError, match="view v was made anew"):
            await spools.fresh(late, late.log())
        spools.close()

    asyncio.run(both())


def test_a_spool_from_beyond_the_log_is_not_given_out(tmp_path: Path) -> None:
    """The log went back to an older copy of itself since it was made."""

    async def ask() -> None:
        spools = Spools(config(tmp_path), tmp_path / "spool")
        whole = Generation("one")
        whole.going.set()
        made = await spools.fresh(whole, whole.log())
        assert (await spools.fresh(whole, whole.log())).id == made.id
        back = whole.log()._replace(end=(4,))
        assert (await spools.fresh(whole, back)).id != made.id
        spools.close()

    asyncio.run(ask())
