"""The moment that readers of a view see another generation of it, by a build or by a rollback."""

from __future__ import annotations

from collections.abc import Callable

from jobs.run.builds.builder import Generation
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.view_entry import ViewEntry


def switched(
    generations: GenerationRegistry,
    one: ViewEntry,
    generation: Generation,
    ready: Callable[[], None],
    show: Callable[[], None],
) -> None:
    """Have the store show ``generation`` instead of the live one; neither is kept then. What raises
    leaves all as it was.

    ``ready`` sees to it that the new one holds all that the view's group was told, where a build
    made it, or has the group go back, for a rollback.
    """
    before, lanes, reach = one.live, generations.lanes, generations.reach
    left = lanes.detach(before) if before is not None else None
    try:
        # In this order, so that ``headwater wait`` is right wherever we are killed: the group is
        # told no more of the one before; it says no more than the new one holds; readers see that;
        # and only the process that keeps it then tells the group more.
        if before is not None:
            reach.hide(before.record.id)
        ready()
        lanes.remove(generation)
        show()
    except BaseException:
        if before is not None:
            reach.show(before.record.id, before.record.name)
        if before is not None and left is not None:
            if one.live is before:
                lanes.attach(before, left)
            else:  # opened again meanwhile: what a turn wrote before that may be of other keys
                left.close()
                one.missed = before.history is None
        raise
    if left is not None:
        left.close()
