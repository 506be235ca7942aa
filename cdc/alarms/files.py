"""``python -m cdc.alarms.files``, which is ``make alarms``: writes what comes from the catalog of
alarms into the repository. A test compares the files with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cdc.alarms.page import BEGIN, page
from cdc.alarms.rules import alertmanager_inhibitions, prometheus_rules

ROOT: Final = Path(__file__).parents[2]
_INHIBITIONS: Final = "# Below: written by `make alarms` from cdc/alarms/catalog.py.\n"


def files() -> Mapping[Path, str]:
    """Each file as it has to be."""
    alertmanager, docs = ROOT / "deploy/prometheus/alertmanager.yml", ROOT / "docs/alarms.md"
    return {
        ROOT / "deploy/prometheus/headwater.rules.yml": prometheus_rules(),
        alertmanager: _kept(alertmanager, _INHIBITIONS) + _INHIBITIONS + alertmanager_inhibitions(),
        docs: _kept(docs, BEGIN) + page(),
    }


def _kept(path: Path, mark: str) -> str:
    """What people have written, above the mark."""
    return path.read_text(encoding="utf-8").partition(mark)[0]


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
