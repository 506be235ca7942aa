"""The parts of a deployment, where one of them cannot be asked."""

from __future__ import annotations

from pathlib import Path

from cdc.config import parse_config
from headwater.deployment import FAILED, _state_database
from jobs.state.server.location import home_of


def test_a_damaged_record_of_the_state_database_is_told_as_its_fault(tmp_path: Path) -> None:
    raw = {
        "source": {"name": "shop", "dsn": "dbname=shop", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:9092"},
        "apply": {"state": str(tmp_path)},
    }
    config = parse_config(raw, {}, tmp_path)
    home = home_of(config.apply.state, "shop")
    home.mkdir(parents=True)
    (home / "place.json").write_text("{")
    (part,) = _state_database(config)
    assert (part.state, part.well) == (FAILED, False)
    assert "is damaged" in part.said
