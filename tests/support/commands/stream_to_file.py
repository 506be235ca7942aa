"""A process that applies a stream to a file: ``python -m tests.support.commands.stream_to_file
BOOTSTRAP TOPIC FILE``.

A line of the file is a batch: where it ends, and the rows' keys and positions. The process goes on
behind the last whole line.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from cdc.config import Kafka
from cdc.kafka.broker import Offsets
from jobs.run.stream.stream import Stream, StreamBatch
from tests.support.events.written_topics import PARTITIONS
from tests.support.servers.lent_jvm import borrow_as_told


def lines(file: Path) -> list[tuple[Offsets, list[tuple[str, int]]]]:
    """The batches of a file; a line that was cut is none."""
    text = file.read_text() if file.exists() else ""
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    return [(_offsets(end), [(key, lsn) for key, lsn in rows]) for end, rows in found]


def _offsets(found: dict[str, dict[str, int]]) -> Offsets:
    return {topic: {int(p): at for p, at in ends.items()} for topic, ends in found.items()}


def main(bootstrap: str, topic: str, file: Path) -> None:
    from jobs.spark.jars import jars
    from jobs.spark.session import open_session

    borrow_as_told()
    spark = open_session("local[2]", {}, jars("spark"))

    def apply(batch: StreamBatch) -> None:
        rows = batch.rows
        found = zip(rows["key"].to_pylist(), rows["commit_lsn"].to_pylist(), strict=True)
        with file.open("a") as out:
            out.write(json.dumps([batch.end, list(found)]) + "\n")

    done = lines(file)
    begin = done[-1][0] if done else {topic: dict.fromkeys(range(PARTITIONS), 0)}
    stream = Stream(spark, Kafka(bootstrap_servers=bootstrap), apply, interval_s=0.02)
    stream.start(begin)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
