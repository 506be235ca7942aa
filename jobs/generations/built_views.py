"""Views of which something stands in a store, whether they are declared still or not."""

from __future__ import annotations

from jobs.generations.generation_record import Generations, read_generations
from jobs.generations.view_state import view_directory


def built_views(root: str, source: str) -> dict[str, Generations]:
    """Those that files below ``apply.state`` tell of, by their names."""
    directories = sorted(view_directory(root, source, "").glob("*/"))
    found = {directory.name: read_generations(directory) for directory in directories}
    return {name: one for name, one in found.items() if one.of}
