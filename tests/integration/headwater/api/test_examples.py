"""The examples of docs/serve.md, as their readers run them."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.commands.deployment import Deployment
from tests.support.serve.served import EXAMPLES, Served
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

_NODE = """
import {{ Follower }} from "{module}";
const follower = new Follower("{base}", "item");
const report = () => {{
  const rows = [...follower.rows.values()].map((one) => one.row);
  console.log(JSON.stringify({{ complete: follower.complete, rows }}));
}};
setInterval(report, 100);
await follower.run();
"""
_PYTHON = """
import json, threading, time
from follow_table import Follower
follower = Follower("{base}", "item")
threading.Thread(target=follower.run, daemon=True).start()
while True:
    time.sleep(0.1)
    print(json.dumps({{"complete": follower.complete, "rows": list(follower.rows.values())}}),
          flush=True)
"""


@pytest.fixture(scope="module")
def served(postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with fresh_database(postgres) as source:
        home = tmp_path_factory.mktemp("examples")
        deployment = Deployment(home, f"t{random.randbytes(5).hex()}", source, kafka)
        deployment.execute(
            "create table item (id int primary key, name text)",
            "insert into item select i, 'item ' || i from generate_series(1, 100) i",
        )
        deployment.init()
        with deployment.running("capture") as capture:
            deployment.captured(capture)
            yield Served(deployment)


def command(language: str, base: str) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", _PYTHON.format(base=base)]
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    script = _NODE.format(module=EXAMPLES / "follow_table.mjs", base=base)
    return [node, "--input-type=module", "-e", script]


@pytest.mark.parametrize("language", ["python", "node"])
def test_an_example_follows_the_table_over_a_restart_of_the_server(
    served: Served, language: str
) -> None:
    execute = served.deployment.execute
    output = served.deployment.home / f"{language}.out"
    with output.open("w") as stream, served.running() as process:
        client = subprocess.Popen(
            command(language, served.base), stdout=stream, stderr=stream, cwd=EXAMPLES
        )
        try:
            follows(served, output)
            execute(
                "update item set name = name || '!' where id < 10", "delete from item where id = 50"
            )
            follows(served, output)
            process.kill()
            process.wait(30)
            execute("insert into item values (500, 'meanwhile') on conflict do nothing",
                    "update item set id = 600 where id = 60")  # fmt: skip
            with served.running():
                follows(served, output)
                execute("truncate item", "insert into item values (60, 'new'), (50, 'new')")
                follows(served, output)
        finally:
            client.kill()
            client.wait()
        execute("truncate item")
        execute("insert into item select i, 'item ' || i from generate_series(1, 100) i")


def follows(served: Served, output: Path) -> None:
    """The example shows what the source has."""
    with psycopg.connect(served.deployment.dsn) as conn:
        rows = conn.execute("select id, name from item order by id").fetchall()
    wanted = [{"id": key, "name": name} for key, name in rows]

    def shown() -> bool:
        written, _, _ = output.read_text().rpartition("\n")
        lines = [line for line in written.splitlines() if line.startswith("{")]
        found = json.loads(lines[-1]) if lines else {"rows": []}
        return sorted(found["rows"], key=lambda row: int(row["id"])) == wanted

    wait_until(shown, "the example to have the source's rows")
