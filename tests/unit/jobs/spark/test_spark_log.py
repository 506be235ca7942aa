"""Spark's own lines have the form of those beside them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from cdc.logs import SPARK_LOG
from jobs.spark.java import java_in_use
from jobs.spark.session import LOGGING

SAYS = """
public class Says {
    public static void main(String[] arguments) {
        var log = org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Some");
        log.error("said \\"so\\"\\non two lines", new IllegalStateException("why"));
        log.error("alone");
        log.info("nobody is told");
    }
}
"""


@pytest.mark.server
@pytest.mark.parametrize("form", ["json", ""])
def test_spark_logs_json_where_headwater_does(tmp_path: Path, form: str) -> None:
    program = tmp_path / "Says.java"
    program.write_text(SAYS, encoding="utf-8")
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    environ = {**os.environ, SPARK_LOG: form} if form else {**os.environ}
    if not form:
        environ.pop(SPARK_LOG, None)
    command = [str(java_in_use()), LOGGING, "-cp", str(jars), str(program)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    if not form:
        assert lines[0].endswith('ERROR Some: said "so"')
        assert "IllegalStateException: why" in done.stderr
        return
    first, second = map(json.loads, lines)
    assert (first["event"], first["level"]) == ("spark", "error")
    assert first["message"] == 'said "so"\non two lines'
    assert "IllegalStateException: why" in first["trace"]
    assert (second["message"], second["trace"]) == ("alone", "")
    assert second["logger"] == "org.apache.spark.Some"
