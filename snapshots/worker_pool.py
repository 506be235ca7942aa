"""Who reads the chunks of a round: the process itself, or worker processes.

A pool takes tasks while it is ``idle`` and gives results when every row is acknowledged by Kafka.
Each worker has a session that imports the exported snapshot and a producer of its own. A worker
whose parent is gone ends by itself; one that dies is an error to the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

from cdc.capture.memory_allocator import keep_freed_memory
from cdc.errors import FatalError, HeadwaterError, LogError, RetryableError, SourceError
from cdc.kafka.bulk_producer import BulkProducer
from cdc.source.postgres import connect
from snapshots.chunk import ChunkReader, Result, Round, Task
from snapshots.oversized_rows import Letters, Turn
from snapshots.publisher import SnapshotPublisher
from snapshots.table_reader import Block

_WORKER_QUEUE_BYTES: Final = 24 << 20
_LOOK_S: Final = 1.0
"""How often a worker that waits looks for its parent."""
_APPLICATION: Final = "headwater snapshot"
_ERRORS: Final = {kind.__name__: kind for kind in (RetryableError, SourceError, LogError)}


class Pool(Protocol):
    """See the module."""

    @property
    def idle(self) -> bool:
        """Whether a task can be given."""

    @property
    def busy(self) -> bool:
        """Whether results are still to come."""

    def give(self, task: Task) -> None:
        """Have a chunk read; only while ``idle``."""

    def results(self, timeout_s: float, *, last: bool = False) -> list[Result]:
        """Chunks that are in Kafka by now; waits for one at most so long. ``last``: no task will
        follow, all results are wanted."""

    def close(self) -> None:
        """Let go of everything; what is being read is given up."""


class InlinePool:
    """The process itself, one chunk after the other.

    ``marked``: the rows come in order, so the first and last ones are marked as such. A chunk's
    last row then waits for the row behind it, and its result with it.
    """

    def __init__(
        self,
        round_: Round,
        producer: BulkProducer,
        *,
        marked: bool,
        on_block: Callable[[str, Block], None] = lambda _label, _block: None,
    ) -> None:
        self._conn = connect(round_.source.dsn, application_name=_APPLICATION)
        self._producer = producer
        self._marked = marked
        self._publisher = _publisher(round_, producer)
        publish = self._publisher.publish if marked else self._publisher.publish_unmarked
        self._reader = ChunkReader(round_, self._conn, self._publisher, publish, on_block)
        self._waiting: list[Result] = []
        self._ready: list[Result] = []

    @property
    def idle(self) -> bool:
        return True

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._ready)

    def give(self, task: Task) -> None:
        result = self._reader.read(task)
        if result.changed:
            self._publisher.finish()  # nothing follows, so a row that is held back is a last one
        else:
            self._producer.flush()
        if result.rows or result.changed:
            self._ready += self._waiting
            self._waiting = []
        self._waiting.append(result)
        if result.changed or not self._marked:
            self._ready += self._waiting
            self._waiting = []

    def results(self, timeout_s: float, *, last: bool = False) -> list[Result]:
        del timeout_s
        if last:
            self._publisher.finish()
            self._ready += self._waiting
            self._waiting = []
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        self._conn.close()


class ProcessPool:
    """``workers`` processes; rows are not marked."""

    def __init__(self, round_: Round, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: dict[Pipe, BaseProcess] = {}
        self._tasks: dict[Pipe, Task | None] = {}
        self._turn = context.Lock()  # one that nobody holds is gone before a worker has it
        for number in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(theirs, round_, os.getpid(), self._turn),
                name=f"{_APPLICATION} {number + 1}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._workers[ours] = process
            self._tasks[ours] = None

    @property
    def pids(self) -> list[int]:
        """The workers' processes."""
        return [process.pid for process in self._workers.values() if process.pid]

    @property
    def idle(self) -> bool:
        return any(task is None for task in self._tasks.values())

    @property
    def busy(self) -> bool:
        return any(task is not None for task in self._tasks.values())

    def give(self, task: Task) -> None:
        pipe = next(pipe for pipe, held in self._tasks.items() if held is None)
        self._tasks[pipe] = task
        try:
            pipe.send(task)
        except OSError:
            raise self._died(pipe) from None

    def results(self, timeout_s: float, *, last: bool = False) -> list[Result]:
        del last
        found = []
        for pipe in wait(list(self._workers), timeout_s):
            assert isinstance(pipe, Pipe)
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                raise self._died(pipe) from None
            if isinstance(answer, _Fault):
                raise answer.error()
            self._tasks[pipe] = None
            found.append(answer)
        return found

    def close(self) -> None:
        for pipe, process in self._workers.items():
            if self._tasks[pipe] is not None:
                process.kill()
            pipe.close()  # an idle one ends by itself
        for process in self._workers.values():
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._workers, self._tasks = {}, {}

    def _died(self, pipe: Pipe) -> WorkerEndedError:
        process = self._workers[pipe]
        process.join(5)
        return WorkerEndedError(
            f"worker process {process.pid} of the snapshot ended with code {process.exitcode}",
            "resume the snapshot: finished chunks are not read again",
        )


class WorkerEndedError(RetryableError):
    """A worker process was killed, or broke; it says nothing of the chunk it read."""


class _Fault:
    """An error on its way through a pipe: causes of psycopg do not go through."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        self.message = getattr(error, "message", f"{type(error).__name__}: {error}")
        self.hint = getattr(error, "hint", "")

    def error(self) -> HeadwaterError:
        return _ERRORS.get(self.kind, FatalError)(self.message, self.hint)


def _publisher(
    round_: Round, producer: BulkProducer, turn: Turn = nullcontext
) -> SnapshotPublisher:
    letters = Letters(round_.source.name, producer, turn) if round_.dead_letters else None
    return SnapshotPublisher(producer, round_.context, round_.lsn, letters)


def _serve(pipe: Any, round_: Round, parent: int, lock: Any) -> None:
    """A worker's life: tasks come in, results go out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    keep_freed_memory()

    def end_with_parent() -> None:
        if os.getppid() != parent:
            os._exit(1)

    def on_block(_label: str, _block: Block) -> None:
        end_with_parent()

    @contextmanager
    def turn() -> Iterator[None]:
        while not lock.acquire(timeout=_LOOK_S):  # who was killed with it never lets go
            end_with_parent()
        try:
            yield
        finally:
            lock.release()

    try:
        kafka = round_.kafka
        producer = BulkProducer(
            kafka.bootstrap_servers, kafka.producer, _WORKER_QUEUE_BYTES, security=kafka
        )
        with connect(round_.source.dsn, application_name=_APPLICATION) as conn:
            publisher = _publisher(round_, producer, turn)
            reader = ChunkReader(round_, conn, publisher, publisher.publish_unmarked, on_block)
            while (task := _given(pipe)) is not None:
                result = reader.read(task)
                producer.flush()
                pipe.send(result)
    except BaseException as error:  # the parent raises it
        with suppress(BrokenPipeError):  # it has gone
            pipe.send(_Fault(error))


def _given(pipe: Any) -> Task | None:
    """The next task; None when the parent has closed the pipe."""
    try:
        task: Task = pipe.recv()
    except EOFError:
        return None
    return task
