"""How the session of ``headwater apply`` writes local files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES = 20


def _faults_of_children(pid: int) -> int:
    """Minor page faults of the processes that this one has started and that have ended: every
    process has some. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[8])


def _checkpoint_files(spark: SparkSession, home: Path) -> Any:
    """What Spark writes a checkpoint's files with."""
    jvm: Any = spark._jvm
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return managers.create(jvm.org.apache.hadoop.fs.Path(str(home)), conf)


def test_no_process_is_started_for_a_file_of_a_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    gateway: Any = spark.sparkContext._gateway
    files = _checkpoint_files(spark, tmp_path)
    path = gateway.jvm.org.apache.hadoop.fs.Path

    def write(number: int) -> None:
        out = files.createAtomic(path(str(tmp_path / str(number))), False)
        out.write(number)
        out.close()

    write(0)
    before = _faults_of_children(gateway.proc.pid)
    for number in range(1, _FILES):
        write(number)
    assert _faults_of_children(gateway.proc.pid) == before
    for number in range(_FILES):
        file = tmp_path / str(number)
        assert file.read_bytes() == bytes([number])
        assert file.stat().st_mode & 0o777 == 0o644


def test_a_file_of_a_checkpoint_is_never_written_over(spark: SparkSession, tmp_path: Path) -> None:
    """Two that apply one view would both plan a batch of one number: the second one fails."""
    gateway: Any = spark.sparkContext._gateway
    files = _checkpoint_files(spark, tmp_path)
    path = gateway.jvm.org.apache.hadoop.fs.Path(str(tmp_path / "0"))
    first = files.createAtomic(path, False)
    first.write(1)
    first.close()
    second = files.createAtomic(path, False)
    second.write(2)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExists"):
        second.close()
    assert (tmp_path / "0").read_bytes() == b"\x01"
