"""What becomes of generations that nobody reads: kept for a while, then dropped."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from bootstrap.build_parts import Kit
from cdc.errors import HeadwaterError
from cdc.topics import view_group
from jobs.generations.last_error import NOTE
from jobs.generations.view_state import state_directory
from jobs.without_mirrors.dead_letters.topic import drop_letters, forget_letters

_DAY_S = 24 * 3600.0


def discard(kit: Kit, number: int) -> None:
    """Remove the snapshot that a generation was filled from."""
    one = kit.read().of[number]
    if one.snapshot:
        kit.snapshots.discard(one.snapshot)
        kit.write(kit.read().changed(number, snapshot=""))


def expire(kit: Kit) -> None:
    """Drop what the policy no longer keeps."""
    apply = kit.config.apply
    for one in kit.read().expired(apply.keep_generations, apply.keep_days * _DAY_S, kit.now_s()):
        try:
            remove(kit, one.number)
            kit.step(f"generation {one.number} dropped")
        except HeadwaterError as error:  # the next one is asked again
            kit.step(f"generation {one.number} is not dropped yet: {error}")


def remove(kit: Kit, number: int) -> None:
    """Delete a generation that nobody reads, from its store and from what is remembered.

    Killed meanwhile, it is one that cannot be shown any more, and is dropped with the next.
    """
    discard(kit, number)
    kit.write(kit.read().moved(number, "dropping"))
    stored = kit.stored(kit.read().of[number])
    try:
        stored.drop(number)
    finally:
        stored.close()
    directory = state_directory(kit.directory, number)
    forget_letters(kit.config, kit.name, directory, kit.broker)
    forget(directory)
    kit.write(kit.read().without(number))


def clear(kit: Kit) -> list[int]:
    """Delete all generations, the live one last. Both turns are the caller's."""
    found = kit.read()
    numbers = sorted(found.of, key=lambda number: found.of[number].phase == "live")
    for number in numbers:
        remove(kit, number)
    tables = [
        (at.schema, at.table)
        for one in found.of.values()
        for at in one.declared.parsed(kit.name).occurrences
    ]
    group, source = view_group(kit.name), kit.config.source
    if kit.broker.leave_group(group, lambda topic: source.is_own(topic, tables)):
        drop_letters(kit.broker, kit.name)  # else those of another source are in that topic, too
    for file in ("generations.json", NOTE):
        (kit.directory / file).unlink(missing_ok=True)
    return numbers


def forget(directory: Path) -> None:
    """Delete what a generation has on disk: its checkpoint, mirrors and declaration; those of
    others stay. Mirrors that were left would take the next one's changes for old ones."""
    for part in ("checkpoint", "mirrors"):
        shutil.rmtree(directory / part, ignore_errors=True)
    (directory / "view.json").unlink(missing_ok=True)
    with suppress(OSError):  # that of the first holds the others'
        directory.rmdir()
