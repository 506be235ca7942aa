"""The jar of Delta's log store for S3 is what its source says."""

from __future__ import annotations

import zipfile

import pytest

from jobs.spark.jars import LOG_STORE
from stack.log_store import CLASS, compiled


@pytest.mark.server
def test_the_jar_is_what_the_compiler_makes_of_its_source() -> None:
    with zipfile.ZipFile(LOG_STORE) as jar:
        assert jar.namelist() == [CLASS]
        assert jar.read(CLASS) == compiled()
