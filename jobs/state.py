"""What a view keeps on disk between runs: Spark's checkpoint, its generation, its declaration.

<apply.state>/<source>/<view>/view.json      generation, what was declared, the newest TRUNCATE
<apply.state>/<source>/<view>/checkpoint/    Spark's own
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.errors import ViewError
from cdc.lsn import Position
from views.definition import ViewDefinition


@dataclass(frozen=True, slots=True)
class ViewState:
    """``generation`` is new with every new checkpoint: batch numbers then start again at 0."""

    directory: Path
    generation: str

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def file(self) -> Path:
        return self.directory / "view.json"

    def truncated(self) -> Position | None:
        """The newest TRUNCATE that this generation has met in any partition."""
        held = (_read(self.file) or {}).get("truncated")
        return None if held is None else Position(*held)

    def remember_truncated(self, position: Position) -> None:
        """Keep ``position`` over a restart. Call it before its batch is committed."""
        _write(self.file, {**(_read(self.file) or {}), "truncated": list(position)})


def open_state(root: str, source: str, view: ViewDefinition) -> ViewState:
    """The state of a view, created if there is none.

    Raises ``ViewError`` when the view was declared otherwise before: what the store holds is not
    what the new declaration says.
    """
    if "://" in root:
        raise ViewError(f"apply.state: {root} is not a local path", "name a directory")
    directory = Path(root) / source / view.name
    declared = {
        "sql": view.normalized,
        "key": list(view.key),
        "store": view.store,
        "table": view.table_name,
    }
    held = _read(directory / "view.json")
    if held is not None and (directory / "checkpoint").is_dir():
        changed = [name for name, value in declared.items() if held.get(name) != value]
        if changed:
            raise ViewError(
                f"view {view.name}: {', '.join(changed)} changed since it was last applied",
                f"give the view a new name, or empty its store and delete {directory}",
            )
        return ViewState(directory, held["generation"])
    generation = str(uuid.uuid4())
    directory.mkdir(parents=True, exist_ok=True)
    state = ViewState(directory, generation)
    _write(state.file, {"generation": generation, **declared})
    return state


def _read(file: Path) -> dict[str, Any] | None:
    try:
        held: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ViewError(
            f"{file} is damaged", "delete the directory it is in: the view starts again"
        ) from None
    return held


def _write(file: Path, document: dict[str, object]) -> None:
    """Whole or not at all: a kill between leaves what was there."""
    scratch = file.with_suffix(".new")
    with scratch.open("w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
        out.flush()
        os.fsync(out.fileno())
    scratch.replace(file)
